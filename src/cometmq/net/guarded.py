"""Requests are checked before a server's handler sees them; those that are refused are answered here.

(RocketMQ: RequestPipeline.java, NettyRemotingAbstract.java.)
"""

from collections.abc import Callable

from cometmq.net.boundary import attempt
from cometmq.net.server import RequestHandler
from cometmq.net.session import Session
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, response

Refusal = Callable[[Command, str], str | None]
"""Returns why a request, sent from an IP address, is refused; None if it is to be handled."""


class Guarded:
    """A server's request handler behind a check; clients' responses pass unchecked.

    Args:
        handler: handles the requests that are not refused.
        refusal: checks each request.
    """

    def __init__(self, handler: RequestHandler, refusal: Refusal) -> None:
        self._handler = handler
        self._refusal = refusal

    def handle(self, session: Session, commands: list[Command]) -> None:
        """Answer refused commands with NO_PERMISSION, unless they are one-way; pass the others on, in order."""
        passed: list[Command] = []
        for command in commands:
            if command.is_response:
                passed.append(command)
            else:
                attempt(session, (command,), self._check, session, command, passed)
        if passed:
            self._handler.handle(session, passed)

    def closed(self, session: Session) -> None:
        """Tell the handler that a session's connection is closed."""
        self._handler.closed(session)

    def _check(self, session: Session, command: Command, passed: list[Command]) -> None:
        refusal = self._refusal(command, session.peer[0])
        if refusal is None:
            passed.append(command)
        elif not command.is_oneway:
            session.send(response(command, ResponseCode.NO_PERMISSION, refusal))
