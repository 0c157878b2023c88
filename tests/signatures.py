"""A handler of requests that passes them on, and remembers which were not signed by a user."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cometmq.net.server import RequestHandler, Server, Session
from cometmq.wire.acl import Credentials, signed_fields
from cometmq.wire.frame import Command

USER = Credentials("user", "a secret, not to be shown")


class Signatures:
    """Passes requests to another handler.

    Attributes:
        codes: the codes of all requests.
        unsigned: those that ``USER`` has not signed, in words.
    """

    def __init__(self, sound: RequestHandler) -> None:
        self.codes: set[int] = set()
        self.unsigned: list[str] = []
        self._sound = sound

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            if not command.is_response:
                self.codes.add(command.code)
                fields = command.ext_fields
                if fields != signed_fields(fields, command.body, command.version, USER):
                    self.unsigned.append(str(command))
        self._sound.handle(session, commands)

    def closed(self, session: Session) -> None:
        self._sound.closed(session)


@asynccontextmanager
async def listening(handler: RequestHandler) -> AsyncIterator[str]:
    """Run a server for a handler; give its address."""
    server = Server(handler)
    port = await server.start("127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop()
