"""Requests are checked before a server's handler sees them; those that are refused are answered here.

(RocketMQ: RequestPipeline.java, NettyRemotingAbstract.java.)
"""

from typing import Protocol

from cometmq.net.boundary import attempt
from cometmq.net.server import RequestHandler
from cometmq.net.session import Session
from cometmq.wire.acl import ACCESS_KEY
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, response


class RequestCheck(Protocol):
    """What decides whether requests are handled."""

    def refusal(self, command: Command, address: str) -> str | None:
        """Return why a request, sent from an IP address, is refused; None if it is to be handled."""
        ...

    def is_signed(self, command: Command) -> bool:
        """Return whether a known user has signed a request, whether or not it is refused."""
        ...

    def is_suspect(self, address: str) -> bool:
        """Return whether an IP address has sent so many forged requests that it should lose connections."""
        ...


class Guarded:
    """A server's request handler behind a check; clients' responses pass unchecked.

    Args:
        handler: handles the requests that are not refused.
        check: checks each request.
    """

    def __init__(self, handler: RequestHandler, check: RequestCheck) -> None:
        self._handler = handler
        self._check = check

    def handle(self, session: Session, commands: list[Command]) -> None:
        """Answer refused commands, unless they are one-way; pass the others on, in order."""
        passed: list[Command] = []
        for command in commands:
            if session.closed:
                break
            if command.is_response:
                passed.append(command)
                if session.newcomers is not None:  # nobody has asked it anything
                    session.count_refused()
            else:
                attempt(session, (command,), self._check_one, session, command, passed)
        if passed:
            self._handler.handle(session, passed)

    def closed(self, session: Session) -> None:
        """Pass a session whose connection is closed on to the handler."""
        self._handler.closed(session)

    def _check_one(self, session: Session, command: Command, passed: list[Command]) -> None:
        refusal = self._check.refusal(command, session.peer[0])
        if refusal is None:
            user = command.ext_fields.get(ACCESS_KEY, "")
            if user != session.user and passed:  # those before are handled as their own user's
                self._handler.handle(session, passed.copy())
                passed.clear()
            session.user = user
            passed.append(command)
            if session.newcomers is not None:
                recognise(session, command, self._check)
        else:
            refuse(session, command, refusal, self._check)


def recognise(session: Session, command: Command, check: RequestCheck) -> None:
    """End the limits of a newcomer if a known user has signed its request."""
    if session.newcomers is not None and check.is_signed(command):
        session.newcomers.remove(session)


def refuse(session: Session, command: Command, refusal: str, check: RequestCheck) -> None:
    """Answer a refused request with NO_PERMISSION, unless it is one-way; or close a suspect's connection."""
    session.shared.refused_requests += 1
    recognise(session, command, check)
    session.count_refused()
    if check.is_suspect(session.peer[0]):
        session.abort("too many requests from its address were not signed by a user that is known")
    elif not command.is_oneway:
        session.send(response(command, ResponseCode.NO_PERMISSION, refusal))
