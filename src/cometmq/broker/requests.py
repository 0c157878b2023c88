"""From the commands of one socket read to the handlers that answer them."""

from collections.abc import Callable, Mapping, Sequence

from cometmq.broker.refused import code_of
from cometmq.broker.send import HEADERS as SEND_HEADERS
from cometmq.errors import CometMQError
from cometmq.net.boundary import attempt
from cometmq.net.server import Session
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, response

Handler = Callable[[Session, Command], Command | None]
"""Gives the answer, or None if it has answered or will. Raises CometMQError: see ``refused.code_of``."""

SendsHandler = Callable[[Session, Sequence[Command]], None]
"""Answers many sends at once."""


class Requests:
    """The broker's side of every connection (a ``net.server.RequestHandler``).

    Sends that follow each other in one socket read are handled together, anything else by itself, and all
    in the order in which they came. A command that fails harms no other.

    Args:
        sends: takes the sends.
        handlers: takes the others, by request code.
        answered: takes the answers of clients to what the broker asked them.
        on_closed: called with each session that is gone.
    """

    def __init__(
        self,
        sends: SendsHandler,
        handlers: Mapping[int, Handler],
        answered: Callable[[Session, Command], None],
        on_closed: Sequence[Callable[[Session], None]],
    ) -> None:
        self._sends = sends
        self._handlers = handlers
        self._answered = answered
        self._on_closed = on_closed

    def handle(self, session: Session, commands: list[Command]) -> None:
        """Answer, now or later, the commands that one socket read completed."""
        run: list[Command] = []
        for command in commands:
            if command.code in SEND_HEADERS and not command.is_response:
                run.append(command)
                continue
            if run:
                attempt(session, run, self._sends, session, run)
                run = []
            handle = self._answered if command.is_response else self._handle_one
            attempt(session, (command,), handle, session, command)
        if run:
            attempt(session, run, self._sends, session, run)

    def closed(self, session: Session) -> None:
        """Forget a session: its connection is gone."""
        for forget in self._on_closed:
            attempt(session, (), forget, session)

    def _handle_one(self, session: Session, command: Command) -> None:
        handler = self._handlers.get(command.code, _not_supported)
        try:
            answer = handler(session, command)
        except CometMQError as error:
            answer = response(command, code_of(error), str(error))
        if answer is not None and not command.is_oneway:
            session.send(answer)


class Starting:
    """Stands in while the broker's parts are put together: for the blink between listening and serving."""

    def handle(self, session: Session, commands: list[Command]) -> None:
        """Ask the peer to come again."""
        for command in commands:
            if not command.is_oneway and not command.is_response:
                session.send(response(command, ResponseCode.SYSTEM_BUSY, "the broker is starting: try again"))

    def closed(self, session: Session) -> None:
        """Do nothing: nothing is known of the session."""


def _not_supported(_: Session, command: Command) -> Command:
    code = ResponseCode.REQUEST_CODE_NOT_SUPPORTED
    return response(command, code, f" request type {command.code} not supported")
