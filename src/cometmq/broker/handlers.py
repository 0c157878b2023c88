"""The dispatch of the commands of one socket read to the handlers that answer them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from cometmq.broker.refused import code_of
from cometmq.errors import CometMQError
from cometmq.net.boundary import attempt
from cometmq.net.server import Session
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import parse
from cometmq.wire.requests import SENDS, TO_BROKERS

Handler: TypeAlias = Callable[[Session, Command, Any], Command | None]
"""Answers a request whose header is parsed as the type that ``wire.requests`` has for its code.

Returns the response, or None if it has sent it or will. Raises CometMQError: see ``refused.code_of``.
"""

Handlers: TypeAlias = Mapping[RequestCode, Handler]


class Part(Protocol):
    """A part of a broker that answers requests."""

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        ...


SendsHandler = Callable[[Session, Sequence[Command]], None]
"""Answers many sends at once."""


class Requests:
    """The broker's side of every connection (a ``net.server.RequestHandler``).

    Consecutive sends of one socket read are handled together, other commands one by one, all in the order in
    which they came. A command that fails affects no other.

    Args:
        sends: handles sends.
        handlers: handle other requests, by request code.
        answered: handles clients' answers to requests of the broker.
        on_closed: called with each closed session.
    """

    def __init__(
        self,
        sends: SendsHandler,
        handlers: Handlers,
        answered: Callable[[Session, Command], None],
        on_closed: Sequence[Callable[[Session], None]],
    ) -> None:
        self._sends = sends
        self._handlers = {int(code): (handler, TO_BROKERS[code].header) for code, handler in handlers.items()}
        self._answered = answered
        self._on_closed = on_closed

    def handle(self, session: Session, commands: list[Command]) -> None:
        """Answer, now or later, the commands of one socket read."""
        run: list[Command] = []
        for command in commands:
            if command.code in SENDS and not command.is_response:
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
        """Drop the state of a session whose connection is closed."""
        for action in self._on_closed:
            attempt(session, (), action, session)

    def _handle_one(self, session: Session, command: Command) -> None:
        try:
            answer = self._answer(session, command)
        except CometMQError as error:
            answer = response(command, code_of(error), str(error))
        if answer is not None and not command.is_oneway:
            session.send(answer)

    def _answer(self, session: Session, command: Command) -> Command | None:
        """Parse a request's header and answer it. Raises CometMQError."""
        if (found := self._handlers.get(command.code)) is None:
            return response(
                command,
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                f" request type {command.code} not supported",
            )
        handler, header_type = found
        return handler(session, command, parse(header_type, command.ext_fields))


class Starting:
    """The request handler between listening and serving, while the broker's parts are assembled."""

    def handle(self, session: Session, commands: list[Command]) -> None:
        """Answer SYSTEM_BUSY: clients retry."""
        for command in commands:
            if not command.is_oneway and not command.is_response:
                session.send(response(command, ResponseCode.SYSTEM_BUSY, "the broker is starting: try again"))

    def closed(self, session: Session) -> None:
        """Do nothing: there is no state of the session."""


def merged(parts: Iterable[Part]) -> Handlers:
    """Return the handlers of all parts in one table; each request has one."""
    handlers: dict[RequestCode, Handler] = {}
    for part in parts:
        more = part.handlers()
        assert handlers.keys().isdisjoint(more), handlers.keys() & more.keys()
        handlers |= more
    return handlers
