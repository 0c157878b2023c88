"""A master's port, up to where the protocol of replication begins: who may be a slave.

============ ======================== ===================================================================
It begins    its address              and what it needs
============ ======================== ===================================================================
plainly      in haAllowedAddresses    nothing: a Java slave can do no more
plainly      not in them, if given    cannot be a slave
plainly      none are given           requests need no signature, and TLS is not enforced
by TLS       in haAllowedAddresses    nothing; a signature that it has must be right
by TLS       any other                where requests are signed, the signature of a user who may do all;
                                      where they are not, haAllowedAddresses must not be given
============ ======================== ===================================================================

TLS is told from a plain connection by its first byte, as at the listening port (``net.tls.server``); what is
said inside it, ``introduction`` describes. An address that has signed wrongly too often, and is not in
haAllowedAddresses, is closed unheard for a while.

Until its first report has come a connection is a stranger. Of one address there are few of them; another one
closes the oldest, and so does a connection for which there is no place. So strangers keep no slave out.
"""

import asyncio
import ipaddress
import logging
import os
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from cometmq.access.failures import Failures
from cometmq.client.background import start_task
from cometmq.errors import NetworkError, ProtocolError
from cometmq.logs import get_logger
from cometmq.net.accepting import Acceptor, ConnectionCount
from cometmq.net.address import address_text
from cometmq.net.listening import listen
from cometmq.net.newcomers import Crowd, CrowdedStream
from cometmq.net.occasional_log import PeerLog
from cometmq.net.tls.server import ServerTls, server_tls
from cometmq.net.tls.settings import TlsMode, TlsSettings
from cometmq.replication import introduction
from cometmq.replication.settings import ReplicationSettings

BACKLOG: Final = 1_024

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter, Callable[[], None]], Awaitable[None]]

_log = get_logger(__name__)


class Signers(NamedTuple):
    """Who may be slaves by their signatures.

    Attributes:
        find_secret: returns the secret of a user who may do all; None if there is no such user.
        failures: the wrong signatures of each address.
    """

    find_secret: Callable[[str], str | None]
    failures: Failures


class SlaveEntrance:
    """Listens for slaves, and lets those in who may be some.

    Args:
        tls: of the broker's ports.
        signers: None where requests are not signed.
        serve: serves who was let in until its connection ends; calls its last argument once that is a slave.
    """

    def __init__(
        self, settings: ReplicationSettings, tls: TlsSettings, signers: Signers | None, serve: Serve
    ) -> None:
        self._signers = signers
        self._settings = settings
        self._tls_settings = tls
        self._serve = serve
        self._networks = settings.ha_networks
        self._tls: ServerTls | None = None
        self._acceptor: Acceptor | None = None
        lack = "no slave had reported on them"
        self._strangers = Crowd(settings.ha_strangers_max, lack, " (haStrangersMax)")
        self._refused = PeerLog(_log, logging.WARNING, "refused %s at the port for slaves: %s")
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port``; port 0 means any free one. Returns the port. Raises SettingsError."""
        self._tls = server_tls(_of_port(self._tls_settings, self._settings.ha_housekeeping_interval))
        sockets = await listen("port for slaves (haListenPort)", host, port, BACKLOG)
        if self._tls is not None:
            self._tls.start()
        own = ConnectionCount(self._settings.ha_connections_max, " (haConnectionsMax)")
        self._acceptor = Acceptor(sockets, self._protocol, own, self._tls, self._strangers)
        return int(sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        if self._acceptor is not None:
            self._acceptor.close()
            await self._acceptor.wait_closed()
        if self._tls is not None:
            await self._tls.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._strangers.close()
        self._refused.close()

    def _protocol(self, release: Callable[[], None]) -> asyncio.BaseProtocol:
        return CrowdedStream(self._begin, self._strangers, release)

    def _begin(
        self, stream: CrowdedStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Start to serve a connection, in a task that ``stop`` cancels: asyncio's own would log that."""
        name = f"slave's connection {address_text(*stream.peer)}"
        task = start_task(self._enter(stream, reader, writer), name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _enter(
        self, stream: CrowdedStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Admit a slave, if it may be one, and serve it."""
        host, port = stream.peer
        is_named = any(ipaddress.ip_address(host) in network for network in self._networks)
        try:
            if not is_named and self._signers is not None and self._signers.failures.is_suspect(host):
                return
            try:
                await self._check(host, reader, writer, is_named=is_named)
            except (OSError, NetworkError, ProtocolError) as error:
                if not stream.is_cut:
                    self._refused.add(address_text(host, port), error)
                return
            await self._serve(reader, writer, stream.admit)
        finally:
            writer.transport.abort()

    async def _check(
        self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_named: bool
    ) -> None:
        """Check who connects. Raises ProtocolError if it may not be a slave, NetworkError, OSError.

        Args:
            is_named: whether its address is in haAllowedAddresses.
        """
        if writer.get_extra_info("ssl_object") is None:
            if not is_named:
                self._refuse_strangers()
            return
        limit_ms = self._settings.ha_housekeeping_interval
        try:
            async with asyncio.timeout(limit_ms / 1000):
                has_signed = await self._meet(host, reader, writer)
        except TimeoutError:
            raise NetworkError(f"it has not introduced itself within {limit_ms} ms") from None
        except asyncio.IncompleteReadError:
            raise NetworkError("it has closed the connection before it introduced itself") from None
        if is_named or has_signed:
            return
        if self._signers is not None:
            raise ProtocolError(
                "requests must be signed, and it has no user: set innerClientAuthenticationCredentials on "
                "the slave, or here haAllowedAddresses to its address"
            )
        self._refuse_others()

    def _refuse_strangers(self) -> None:
        """Raise ProtocolError if one that comes plainly, from no allowed address, may not be a slave."""
        self._refuse_others()
        if self._signers is not None:
            why = "requests must be signed"
        elif self._tls_settings.tls_mode is TlsMode.ENFORCING:
            why = "tlsServerMode=enforcing"
        else:
            return
        raise ProtocolError(
            f"{why}, and it comes plainly: set haTlsEnable=true on the slave if that is a CometMQ broker, or "
            "here haAllowedAddresses to its address"
        )

    def _refuse_others(self) -> None:
        """Raise ProtocolError if only allowed addresses may be slaves, as nobody signs."""
        if self._networks and self._signers is None:
            allowed = self._settings.ha_allowed_addresses
            raise ProtocolError(f"its address is not in haAllowedAddresses ({allowed})")

    async def _meet(self, host: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Greet a slave; return whether a user who may do all has signed its answer. Raises ProtocolError."""
        challenge = os.urandom(introduction.CHALLENGE_SIZE)
        writer.write(introduction.encode_greeting(challenge))
        size = introduction.decode_head(await reader.readexactly(introduction.HEAD_SIZE))
        if not size:
            return False
        name = await reader.readexactly(size)
        signature = await reader.readexactly(introduction.SIGNATURE_SIZE)
        if self._signers is None:
            return False
        find_secret, failures = self._signers
        secret = find_secret(name.decode(errors="replace"))
        if secret is None or not introduction.is_signed(challenge, name, signature, secret):
            _count_wrong(host, failures)
            raise ProtocolError(
                f"user {name.decode(errors='replace')!r} is not known, is disabled, may not do all, or has "
                "another secret (innerClientAuthenticationCredentials of the slave)"
            )
        return True


def _count_wrong(host: str, failures: Failures) -> None:
    """Count a wrong signature of an address; log when it has had too many."""
    was_suspect = failures.is_suspect(host)
    failures.add(host)
    if failures.is_suspect(host) and not was_suspect:
        text = "%s is closed unheard from now on (failedSignaturesMax=%d a minute)"
        _log.warning(text, host, failures.most)


def _of_port(settings: TlsSettings, silence_ms_max: int) -> TlsSettings:
    """Return the settings of a port that accepts both kinds, and waits as long as a slave may be silent.

    Who must not come plainly, is decided when the address is known, too.
    """
    limit_ms = min(silence_ms_max, 600_000)
    mode = TlsMode.PERMISSIVE if settings.tls_mode is TlsMode.ENFORCING else settings.tls_server_mode
    return replace(settings, tls_server_mode=mode, tls_first_byte_timeout_ms=limit_ms)
