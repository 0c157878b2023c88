"""Send the alert of a handshake that fails, so that the client learns what is wrong.

OpenSSL writes an alert (RFC 8446, 6.2) when it refuses a client: its certificate has expired, no version or
cipher is common, and so on. asyncio and uvloop then close the connection, and leave the alert behind
(``SSLProtocol._do_handshake``): the client would only see that it was closed.
"""

import contextlib
import socket
import ssl
from contextvars import ContextVar
from typing import Final

BEGINNING: Final[ContextVar[socket.socket]] = ContextVar("BEGINNING")
"""The socket on which the current task begins TLS: event loops do not pass it to the context."""


class AlertingContext(ssl.SSLContext):
    """A server's context that sends alerts on the socket ``BEGINNING``, which is set for each connection."""

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = True,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """Begin the TLS of one connection (called by the event loop)."""
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session)
        assert isinstance(made, _AlertingObject)
        made.outgoing, made.connection = outgoing, BEGINNING.get()
        return made


class _AlertingObject(ssl.SSLObject):
    """The TLS of one connection."""

    outgoing: ssl.MemoryBIO
    connection: socket.socket

    def do_handshake(self) -> None:
        """Continue the handshake; if it fails, send what OpenSSL has written."""
        try:
            super().do_handshake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            with contextlib.suppress(OSError):  # the client may be gone, or read nothing
                self.connection.send(self.outgoing.read())
            raise


AlertingContext.sslobject_class = _AlertingObject
