"""A slave's connection to its master: it appends what the master sends.

The slave learns its master's address from the name server's answer to its registrations. It connects, reports
the end of its log, and appends what comes; after each append, and at intervals, it reports again. If the
connection is lost it connects again after RECONNECT_MS. What the bytes on the connection are, an intake knows
(``intakes.py``).

A slave whose log the master's does not continue has *diverged*: messages are in it that the master has not,
or it missed some that have expired. It says so, in its log, its health and its runtime info, and tries again
at intervals, but appends nothing.

(RocketMQ: DefaultHAClient.java.)
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from typing import Final

from cometmq.errors import CometMQError, LogDiverged, NetworkError, StoreNotWritable, TLSError
from cometmq.logs import get_logger
from cometmq.net.address import parse_address
from cometmq.net.tls.client import TLS, trouble_of
from cometmq.replication import introduction
from cometmq.replication.intakes import LogIntake
from cometmq.replication.settings import ReplicationSettings
from cometmq.store.store import MessageStore
from cometmq.wire.acl import Credentials

RECONNECT_MS: Final = 5_000
"""Pause before the next try after the connection was lost or refused."""
READ_SIZE: Final = 128 * 1024
"""Bytes that are appended before other work of the loop has its turn."""
REMEDY: Final = (
    "start this slave with an empty store (storePathRootDir); what only it has can be read from the old one "
    "(cometmq store find, cometmq store salvage)"
)

_NO_HANDSHAKE: Final = (
    "it closed the connection during the TLS handshake: it does not speak TLS there (haTlsEnable; no Java "
    "master does), or does not accept this slave's certificate"
)

_log = get_logger(__name__)


class MasterLink:
    """A slave's side of the replication.

    Args:
        make_intake: makes the intake of a new connection.
        credentials: as whom it introduces itself to a master inside TLS; None for nobody.

    Attributes:
        is_connected: whether the master is connected, and this log the beginning of its.
        problem: why nothing is replicated; empty while the master is connected.
        has_diverged: whether the reason is that this log is not the beginning of the master's, until
            something continues it.
        read_ms, written_ms: when something was last read and written, ms since 1970; 0 for never.
    """

    def __init__(
        self,
        store: MessageStore,
        make_intake: Callable[[], LogIntake],
        settings: ReplicationSettings,
        tls: TLS | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.is_connected = False
        self.problem = "no name server knows the master's address yet"
        self.has_diverged = False
        self.read_ms = self.written_ms = 0
        self._credentials = credentials
        self._store = store
        self._make_intake = make_intake
        self._settings = settings
        self._tls = tls
        self._address: str | None = None
        self._moved = asyncio.Event()  # set when the address has changed
        self._task: asyncio.Task[None] | None = None

    @property
    def address(self) -> str | None:
        """The address of the master's HA port; None as long as it is not known."""
        return self._address

    def set_address(self, address: str | None) -> None:
        """Follow the master whose HA port is at an address; None for nobody."""
        if address != self._address:
            self._address = address
            self._moved.set()

    def compare_end(self, own: int, masters: int) -> None:
        """Compare the end of this log with that of the master's, which was read later and so is not less.

        Raises LogDiverged if it is less, NetworkError as long as nothing has come over this connection: then
        what the master has must not replace what is here.
        """
        if own > masters:
            error = LogDiverged(
                f"this log ends at {own}, but the master's, which lacks the rest, at {masters}"
            )
            if not self.has_diverged:
                self._failed(str(self._address), error)
            raise error
        self.check_connected()

    def check_connected(self) -> None:
        """Check that this log follows the master's. Raises NetworkError as long as it does not."""
        if not self.is_connected or self.has_diverged:
            raise NetworkError("its log is not replicated now")

    def start(self) -> None:
        """Begin to follow the master."""
        self._task = asyncio.create_task(self._run(), name="replication")

    async def stop(self) -> None:
        """Close the connection."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        """Follow the master at each address, until cancelled."""
        while True:
            self._moved.clear()
            if (address := self._address) is None:
                await self._moved.wait()
                continue
            follow = asyncio.create_task(self._follow_on(address))
            moved = asyncio.create_task(self._moved.wait())
            try:
                await asyncio.wait((follow, moved), return_when=asyncio.FIRST_COMPLETED)
            finally:
                follow.cancel()
                moved.cancel()
                await asyncio.gather(follow, moved, return_exceptions=True)

    async def _follow_on(self, address: str) -> None:
        """Follow the master at an address; connect again after each failure."""
        while True:
            try:
                await self._follow(address)
            except (CometMQError, OSError) as error:
                self._failed(address, error)
            finally:
                self.is_connected = False
                self._store.received.forget_rest()
            await asyncio.sleep(RECONNECT_MS / 1000)

    def _failed(self, address: str, error: Exception) -> None:
        """Remember and log why nothing is replicated; the same again is only for debugging.

        If the log has diverged, that the connection is lost, too, is no news.
        """
        if self.has_diverged and not isinstance(error, LogDiverged):
            _log.debug("master %s: %s", address, error)
            return
        self.has_diverged = isinstance(error, LogDiverged)
        problem = f"master {address}: {str(error) or type(error).__name__}"
        if self.has_diverged:
            problem += f"; {REMEDY}"
        is_new = problem != self.problem
        self.problem = problem
        level = logging.ERROR if isinstance(error, LogDiverged | StoreNotWritable) else logging.WARNING
        _log.log(level if is_new else logging.DEBUG, "nothing is replicated: %s", problem)

    async def _follow(self, address: str) -> None:
        """Connect, and append what the master sends until the connection is lost.

        Raises LogDiverged, StoreNotWritable, NetworkError, ProtocolError or OSError.
        """
        limit_ms = self._settings.ha_housekeeping_interval
        reader, writer = await connect(address, limit_ms, READ_SIZE, self._tls, self._credentials)
        try:
            await self._append_all(address, reader, writer)
        finally:
            writer.transport.abort()

    async def _append_all(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        settings, received, intake = self._settings, self._store.received, self._make_intake()
        silent_ms = 0
        self._write(writer, intake.begin())
        while True:
            try:
                async with asyncio.timeout(settings.ha_send_heartbeat_interval / 1000):
                    data = await reader.read(READ_SIZE)
            except TimeoutError:
                silent_ms += settings.ha_send_heartbeat_interval
                if silent_ms >= settings.ha_housekeeping_interval:
                    raise NetworkError(f"it was silent for {silent_ms} ms (haHousekeepingInterval)") from None
                self._write(writer, intake.report())
                continue
            if not data:
                raise NetworkError("it has closed the connection")
            silent_ms, self.read_ms = 0, self._store.clock.now_ms()
            end_offset = received.end_offset
            await intake.received(data)
            if received.end_offset != end_offset:
                self.has_diverged = False
            if intake.is_level and not self.is_connected:
                _log.info("replicating from master %s, from offset %d on", address, received.end_offset)
                self.is_connected = True
            if intake.is_level and not self.has_diverged:
                self.problem = ""
            self._write(writer, intake.report())
            await writer.drain()
            await asyncio.sleep(0)  # others have their turn

    def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        self.written_ms = self._store.clock.now_ms()


async def connect(
    address: str, limit_ms: int, size_max: int, tls: TLS | None, credentials: Credentials | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a master's port; by TLS, if that is given, and then introduce this slave.

    Args:
        limit_ms: how long that may take.
        size_max: bytes that the reader keeps before the master has to wait.
        credentials: of the user as whom the slave introduces itself; None for none.

    Raises:
        TLSError: the master speaks no TLS there, or one side does not accept the other's certificate.
        ProtocolError: what answers is no master's port of CometMQ.
        NetworkError, OSError: nobody answers, or not in time.
    """
    host, port = parse_address(address)
    context = None if tls is None else tls.context()
    try:
        async with asyncio.timeout(limit_ms / 1000):
            reader, writer = await asyncio.open_connection(host, port, limit=size_max, ssl=context)
            if tls is not None:
                await _introduce(reader, writer, credentials)
    except TimeoutError:
        raise NetworkError(f"no connection within {limit_ms} ms") from None
    except ssl.SSLError as error:
        raise TLSError(f"{trouble_of(error)} (haTlsEnable)") from error
    except ConnectionResetError as error:
        raise NetworkError(_NO_HANDSHAKE if tls is not None else str(error)) from error
    return reader, writer


async def _introduce(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, credentials: Credentials | None
) -> None:
    try:
        challenge = introduction.decode_greeting(await reader.readexactly(introduction.GREETING_SIZE))
        writer.write(introduction.encode_introduction(challenge, credentials))
    except asyncio.IncompleteReadError:
        writer.transport.abort()
        raise NetworkError("it closed the connection before it greeted this slave") from None
    except BaseException:
        writer.transport.abort()
        raise
