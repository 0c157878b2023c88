"""TLS of a server: which of its new connections use it, and the certificate, which is renewed while it runs.

A connection is TLS if its first byte is 0x16, the type of a record that begins a handshake (RFC 8446, 5.1); a
frame of RocketMQ begins with 0 or 1. The byte is looked at where it waits, in the socket: so both kinds share
a port, and the connection is then given to the event loop as if nothing had happened.

The files are looked at every ``RENEW_S``, in a thread. New connections use a changed certificate once it and
its key match; until then, and while a file is broken, they use the old one. Open connections keep theirs.

Source: RocketMQ ``NettyRemotingServer.java`` (TlsModeHandler), ``FileWatchService.java``.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Sequence
from typing import Final, NamedTuple

from cometmq.errors import SettingsError
from cometmq.logs import get_logger
from cometmq.net.tls.alerts import BEGINNING, AlertingContext
from cometmq.net.tls.pem import Stamps, load_authorities, load_chain, reason_of, stamps
from cometmq.net.tls.settings import ClientAuth, TlsMode, TlsSettings

HANDSHAKE: Final = b"\x16"
RENEW_S: Final = 1.0

_VERIFY: Final = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.OPTIONAL: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRE: ssl.CERT_REQUIRED,
}
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

_log = get_logger(__name__)


class Handshake(NamedTuple):
    """How to begin TLS on one connection; its fields are arguments of ``connect_accepted_socket``."""

    ssl: ssl.SSLContext
    ssl_handshake_timeout: float


class ServerTls:
    """The TLS of the listening ports of a server.

    Args:
        settings: their mode is not DISABLED.
        protocols: what is spoken over TLS, for clients that name that in the handshake (ALPN); RocketMQ's own
            protocol has no name there.

    Raises:
        SettingsError: a file cannot be read, or does not contain what it should; or a setting is illegal.
    """

    def __init__(self, settings: TlsSettings, protocols: Sequence[str] = ()) -> None:
        self._settings = settings
        self._protocols = protocols
        self._stamps = self._refused = self._present_stamps()
        self._context = self._load()
        self._watch: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look for changed files, unless that has begun."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._look_for_changes(), name="TLS certificates")

    async def stop(self) -> None:
        """Stop looking for changed files."""
        if self._watch is not None:
            self._watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watch
            self._watch = None

    def renew(self) -> bool:
        """Load files that have changed, in any thread; return whether new connections use them now."""
        present = self._present_stamps()
        if present in (self._stamps, self._refused):
            return False
        try:
            context = self._load()
        except SettingsError as error:
            _log.warning("changed TLS files are not used, the ones before are: %s", error)
            self._refused = present
            return False
        if present != self._present_stamps():
            return False  # they are being written: the next look finds them complete
        self._context, self._stamps, self._refused = context, present, present
        _log.info("new connections use the changed certificate %s", self._settings.tls_server_cert_path)
        return True

    async def handshake(self, connection: socket.socket) -> Handshake | None:
        """Wait for the first byte of a connection; return its handshake, or None for a plain connection.

        The task that calls this begins the handshake.

        Raises:
            ConnectionRefusedError: it is plain, and plain connections are not accepted.
            TimeoutError: it sent nothing in time.
            OSError: it was lost.
        """
        limit_ms = self._settings.tls_first_byte_timeout_ms
        try:
            async with asyncio.timeout(limit_ms / 1000):
                first = await _first_byte(connection)
        except TimeoutError:
            raise TimeoutError(f"it sent nothing within {limit_ms} ms (tlsFirstByteTimeoutMs)") from None
        if first == HANDSHAKE:
            BEGINNING.set(connection)
            return Handshake(self._context, self._settings.tls_handshake_timeout_ms / 1000)
        if first and self._settings.tls_mode is TlsMode.ENFORCING:  # one that has ended sends no request
            raise ConnectionRefusedError("it does not begin with TLS, as tlsServerMode=enforcing demands")
        return None

    def _load(self) -> ssl.SSLContext:
        context = _context(self._settings)
        if self._protocols:
            context.set_alpn_protocols(self._protocols)
        return context

    def _present_stamps(self) -> Stamps:
        settings = self._settings
        return stamps(
            settings.tls_server_cert_path, settings.tls_server_key_path, settings.tls_server_trust_cert_path
        )

    async def _look_for_changes(self) -> None:
        while True:
            await asyncio.sleep(RENEW_S)
            await asyncio.to_thread(self.renew)


def server_tls(settings: TlsSettings, protocols: Sequence[str] = ()) -> ServerTls | None:
    """Return the TLS of a server with these settings; None if it is disabled. Raises SettingsError."""
    return None if settings.tls_mode is TlsMode.DISABLED else ServerTls(settings, protocols)


async def _first_byte(connection: socket.socket) -> bytes:
    """Wait for the first byte of a non-blocking socket, which stays there; empty if the peer ended it.

    Raises OSError: the connection was lost.
    """
    loop = asyncio.get_running_loop()
    arrived: asyncio.Future[bytes] = loop.create_future()

    def look() -> None:
        try:
            first = connection.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            if not arrived.done():
                arrived.set_exception(error)
            return
        if not arrived.done():
            arrived.set_result(first)

    look()
    if arrived.done():
        return arrived.result()
    loop.add_reader(connection, look)
    try:
        return await arrived
    finally:
        loop.remove_reader(connection)


def _context(settings: TlsSettings) -> ssl.SSLContext:
    """Build the context of a server from its settings and files. Raises SettingsError."""
    if not settings.tls_server_cert_path:
        raise SettingsError(
            f"tlsServerMode={settings.tls_mode} needs a certificate: give tlsServerCertPath and "
            "tlsServerKeyPath, or --tls-cert and --tls-key"
        )
    context = AlertingContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.minimum_version, context.maximum_version = _versions(settings.tls_protocols)
    if settings.tls_ciphers:
        try:
            context.set_ciphers(settings.tls_ciphers.replace(",", ":"))
        except ssl.SSLError as error:
            raise SettingsError(
                f"tlsCiphers {settings.tls_ciphers}: {reason_of(error)}: give names of OpenSSL's, such as "
                "ECDHE-RSA-AES128-GCM-SHA256"
            ) from None
    load_chain(
        context,
        settings.tls_server_cert_path,
        settings.tls_server_key_path or None,
        settings.tls_server_key_password or None,
    )
    auth = settings.tls_server_need_client_auth
    if auth is not ClientAuth.NONE:
        if not settings.tls_server_trust_cert_path:
            raise SettingsError(
                f"tlsServerNeedClientAuth={auth} needs the authorities of clients' certificates: give "
                "tlsServerTrustCertPath"
            )
        load_authorities(context, settings.tls_server_trust_cert_path)
        context.verify_mode = _VERIFY[auth]
    return context


def _versions(text: str) -> tuple[ssl.TLSVersion, ssl.TLSVersion]:
    """Return the lowest and the highest version in a list. Raises SettingsError."""
    names = [name for part in text.split(",") if (name := part.strip())] or list(_VERSIONS)
    for name in names:
        if name not in _VERSIONS:
            raise SettingsError(f"tlsProtocols {text}: {name} is none of {', '.join(_VERSIONS)}")
    found = [_VERSIONS[name] for name in names]
    return min(found), max(found)
