"""A master's port for slaves, and the connection of each slave.

Theory of operation: a slave's first report says where to send from. From then on one task sends what the log
has, a piece at a time: it waits while the slave does not read, and for an append while there is nothing to
send. Another task reads reports, which are acknowledgements. Appends wake the senders only while there are
slaves; without any, they do not even call a function. What the bytes on the connection are, a feed knows
(``feeds.py``).

Bytes are read as pulls read them: from memory if they are there, else by a thread, so no slave that is far
behind holds up the loop.

(RocketMQ: DefaultHAService.java, DefaultHAConnection.java.)
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

from cometmq.errors import NetworkError, ProtocolError
from cometmq.logs import get_logger
from cometmq.message import Buffer
from cometmq.net.address import address_text
from cometmq.net.occasional_log import PeerLog
from cometmq.net.tasks import until_one_ends
from cometmq.net.tls.settings import TlsSettings
from cometmq.replication.acks import NOTHING
from cometmq.replication.entrance import Signers, SlaveEntrance
from cometmq.replication.feeds import LogFeed
from cometmq.replication.settings import ReplicationSettings
from cometmq.store.store import MessageStore

READ_SIZE: Final = 4096

ReadLog = Callable[[int, int], Awaitable[Buffer | None]]
"""Reads the log's bytes from an offset, at most so many; None if there are none."""

_log = get_logger(__name__)


class SlaveState(NamedTuple):
    """What a master knows of a slave.

    Attributes:
        address: of its end of the connection, ``ip:port``.
        acked: the end of its log by its last report; NOTHING while it begins anew.
        sent: the log's offset up to which was sent.
        is_in_sync: whether it counts as in sync.
        bytes_per_second: how much was sent in the last second.
    """

    address: str
    acked: int
    sent: int
    is_in_sync: bool
    bytes_per_second: int


class MasterPort:
    """The port of a master's slaves.

    Args:
        read_log: reads bytes of the store's log.
        make_feed: makes the feed of a new connection.
        tls: of the broker's ports.
        signers: who may be slaves if they sign; None where requests are not signed.

    Attributes:
        entrance: lets slaves in.
    """

    def __init__(
        self,
        store: MessageStore,
        read_log: ReadLog,
        make_feed: Callable[[], LogFeed],
        settings: ReplicationSettings,
        tls: TlsSettings,
        signers: Signers | None = None,
    ) -> None:
        self._store = store
        self._read_log = read_log
        self._make_feed = make_feed
        self._settings = settings
        self.entrance = SlaveEntrance(settings, tls, signers, self._accept)
        self._slaves: set[_Slave] = set()  # those that have reported
        self._connected = PeerLog(_log, logging.INFO, "slave %s has connected: %s")
        self._gone = PeerLog(_log, logging.INFO, "slave %s is gone: %s")
        self._refused = PeerLog(_log, logging.WARNING, "slave %s is refused: %s")

    @property
    def slaves(self) -> list[SlaveState]:
        """The slaves that have reported, and are connected."""
        return [slave.state() for slave in self._slaves]

    async def start(self, host: str, port: int) -> int:
        """Listen on ``host:port``; port 0 means any free one. Returns the port. Raises SettingsError."""
        return await self.entrance.start(host, port)

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        await self.entrance.stop()
        for log in (self._connected, self._gone, self._refused):
            log.close()

    def wake(self) -> None:
        """Send what the log has got; called after appends and commits."""
        for slave in self._slaves:
            slave.more.set()

    async def _accept(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, admit: Callable[[], None]
    ) -> None:
        """Serve a slave until its connection ends; ``admit`` is called when it has reported."""
        feed = self._make_feed()
        slave = _Slave(reader, writer, feed, self._read_log, self._settings)
        try:
            await slave.serve(partial(self._admit, slave, admit))
        except (OSError, NetworkError, ProtocolError) as error:
            if slave in self._slaves or isinstance(error, ProtocolError):
                self._gone.add(slave.address, error)
            else:
                _log.debug("%s is gone, which was no slave: %s", slave.address, error)
        finally:
            self._slaves.discard(slave)
            if not self._slaves:
                self._store.appending.call_after(None)
            feed.close()

    def _admit(self, slave: "_Slave", admit: Callable[[], None]) -> None:
        """Admit a slave that has sent its first report. Raises NetworkError if there are too many."""
        if slave in self._slaves:
            return  # it reports anew, after another handshake
        most = self._settings.ha_slaves_max
        if len(self._slaves) >= most:
            text = f"{most} are connected, which is the limit (haSlavesMax)"
            self._refused.add(slave.address, text)
            raise NetworkError(text)
        self._slaves.add(slave)
        self._store.appending.call_after(self.wake)
        admit()
        self._connected.add(slave.address, f"its log ends at {slave.state().acked}")


class _Slave:
    """The connection of one slave, who may be anybody before its first report.

    Attributes:
        address: of its end, ``ip:port``.
        more: set when the log may have more to send.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        feed: LogFeed,
        read_log: ReadLog,
        settings: ReplicationSettings,
    ) -> None:
        self.address = address_text(*writer.get_extra_info("peername")[:2])
        self.more = asyncio.Event()
        self._reader = reader
        self._writer = writer
        self._feed = feed
        self._read_log = read_log
        self._settings = settings
        self._rate = _Rate()

    def state(self) -> SlaveState:
        """Return what is known of the slave."""
        feed = self._feed
        return SlaveState(self.address, feed.acked, feed.sent, feed.is_in_sync, self._rate.in_last_second())

    async def serve(self, admit: Callable[[], None]) -> None:
        """Serve the slave until its connection ends. Raises OSError, NetworkError or ProtocolError.

        Args:
            admit: called when it has reported; raises NetworkError if it has to go.
        """
        await until_one_ends(self._receive(admit), self._send())

    async def _receive(self, admit: Callable[[], None]) -> None:
        """Read reports. Raises NetworkError when the slave is silent, or has closed the connection."""
        feed, silence_ms = self._feed, self._settings.ha_housekeeping_interval
        while True:
            try:
                async with asyncio.timeout(silence_ms / 1000):
                    data = await self._reader.read(READ_SIZE)
            except TimeoutError:
                raise NetworkError(f"it was silent for {silence_ms} ms (haHousekeepingInterval)") from None
            if not data:
                raise NetworkError("it has closed the connection")
            is_first = feed.acked == NOTHING
            if answer := feed.received(data):
                self._writer.write(answer)
            if is_first and feed.acked != NOTHING:
                admit()
                self.more.set()

    async def _send(self) -> None:
        """Send what the slave lacks. Raises OSError or ProtocolError."""
        heartbeat_s = self._settings.ha_send_heartbeat_interval / 1000
        while True:
            self.more.clear()
            if (piece := self._feed.next_piece()) is not None:
                data = await self._read_log(piece.offset, piece.size)
                if data is None:
                    raise ProtocolError(f"what it lacks, from {piece.offset} on, has expired meanwhile")
                self._rate.add(len(data))
                self._writer.write(b"".join(self._feed.frames(piece, data)))
                await self._writer.drain()
                await asyncio.sleep(0)  # others have their turn
                continue
            try:
                async with asyncio.timeout(heartbeat_s):
                    await self.more.wait()
            except TimeoutError:
                self._writer.write(self._feed.heartbeat())
                await self._writer.drain()


class _Rate:
    """Counts what happens in each second of the loop's time."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._second = 0
        self._count = self._before = 0

    def add(self, count: int) -> None:
        """Count more."""
        self._turn()
        self._count += count

    def in_last_second(self) -> int:
        """Return the count of the last whole second."""
        self._turn()
        return self._before

    def _turn(self) -> None:
        second = int(self._loop.time())
        if second != self._second:
            self._before = self._count if second == self._second + 1 else 0
            self._second, self._count = second, 0
