"""A broker's part in replication: the port of a master's slaves, or a slave's link to its master.

What a broker is, its settings say (``brokerRole``), for as long as it runs.
"""

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack

from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import read
from cometmq.broker.settings import BrokerSettings
from cometmq.errors import SettingsError
from cometmq.message import Buffer
from cometmq.net import inproc
from cometmq.net.client import Connections
from cometmq.net.session import Session
from cometmq.replication.acks import SlaveAcks
from cometmq.replication.copies import Copies, SlaveTables
from cometmq.replication.master import MasterPort
from cometmq.replication.settings import BrokerRole
from cometmq.replication.slave import MasterLink
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import encode
from cometmq.wire.bodies.stats import ReplicationStatus, SlaveConnection, SlaveStatus
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import NoFields, RegisterBrokerResponseHeader

_log = logging.getLogger(__name__)


class Replication:
    """One broker's part in replication.

    Attributes:
        acks: what a master's slaves have acknowledged.
        port: a master's port for its slaves; None if it has none.
    """

    def __init__(self, store: MessageStore, settings: BrokerSettings) -> None:
        self.port: int | None = None
        self.acks = SlaveAcks(
            settings.awaited_acks, settings.ha_max_gap_not_in_sync, lambda: store.written_offset
        )
        self._store = store
        self._settings = settings
        self._master = MasterPort(store, self._read, self.acks, settings)
        self._link = MasterLink(store, settings)
        self._copies: Copies | None = None

    @property
    def is_slave(self) -> bool:
        """Whether the broker follows a master."""
        return self._settings.is_slave

    async def start(self, listen_port: int, tables: SlaveTables, stack: AsyncExitStack) -> None:
        """Begin to replicate, until the stack is closed. Raises SettingsError if a port cannot be used."""
        settings = self._settings
        if not settings.is_slave:
            await self._listen(listen_port, stack)
            return
        connections = Connections(credentials=settings.inner_credentials, tls=settings.name_server_tls)
        received = self._store.received
        self._copies = Copies(connections, tables, lambda: received.end_offset, self._link.compare_end)
        self._link.start()
        self._copies.start()
        stack.push_async_callback(self._link.stop)
        stack.push_async_callback(self._copies.stop)

    def registered(self, answer: RegisterBrokerResponseHeader) -> None:
        """Follow the master that a name server has named; called after each registration."""
        if self._copies is not None and answer.master_addr:
            self._copies.set_address(answer.master_addr)
            if answer.ha_server_addr:
                self._link.set_address(answer.ha_server_addr)

    def copy_soon(self) -> None:
        """Copy the master's tables now, not only when the next round is due."""
        if self._copies is not None:
            self._copies.go_on()

    @property
    def is_looking(self) -> bool:
        """Whether a slave is not connected to its master, whose address may have changed."""
        return self.is_slave and not self._link.is_connected

    @property
    def has_diverged(self) -> bool:
        """Whether a slave's log is not the beginning of its master's."""
        return self._link.has_diverged

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.GET_BROKER_HA_STATUS: self.answer_status,
        }

    def answer_status(self, _session: Session, command: Command, _header: NoFields) -> Command:
        """GET_BROKER_HA_STATUS: a master's slaves, or how far a slave is."""
        return response(command, body=encode(self.status()))

    def status(self) -> ReplicationStatus:
        """Return the state of the replication."""
        end, link = self._store.pointers.committed, self._link
        if self.is_slave:
            slave = SlaveStatus(link.address, link.read_ms, link.written_ms, 0, end)
            return ReplicationStatus(end, slave, master=False)
        connections = [
            SlaveConnection(
                address=slave.address,
                behind=end - max(slave.acked, 0),
                is_in_sync=self.acks.is_in_sync(slave.acked),
                acked_offset=slave.acked,
                sent_offset=slave.sent,
                bytes_per_second=slave.bytes_per_second,
            )
            for slave in self._master.slaves
        ]
        return ReplicationStatus(end, connections=connections, in_sync_slaves=self.acks.in_sync_count)

    def problems(self) -> list[str]:
        """Return why what is stored is not replicated, for operators and for the broker's health."""
        if self._copies is None:
            return []
        found = (("replication", self._link.problem), ("copies", self._copies.problem))
        return [f"{name}: {problem}" for name, problem in found if problem]

    async def _read(self, offset: int, size_max: int) -> Buffer | None:
        return await read(self._store, self._store.readings.log_bytes(offset, size_max))

    async def _listen(self, listen_port: int, stack: AsyncExitStack) -> None:
        """Listen for slaves, if strangers cannot be among them."""
        settings, host = self._settings, self._settings.bind_address
        if (why := self._why_closed()) is not None:
            if settings.awaited_acks:
                raise SettingsError(f"sends wait for slaves (inSyncReplicas), but none can connect: {why}")
            level = logging.WARNING if settings.ha_listen_port is not None else logging.INFO
            _log.log(level, "no port for slaves: %s", why)
            return
        port = settings.ha_listen_port
        if port is None:
            port = listen_port + 1 if settings.listen_port else 0
        try:
            self.port = await self._master.start(host, port)
        except SettingsError as error:
            if settings.ha_listen_port is not None or settings.broker_role is BrokerRole.SYNC_MASTER:
                raise
            _log.warning("no port for slaves (haListenPort): %s. The broker goes on without slaves", error)
            return
        stack.push_async_callback(self._master.stop)
        if self._store.settings.transient_store_pool_enable:
            self._store.on_synced = _both(self._store.on_synced, self._master.wake)

    def _why_closed(self) -> str | None:
        """Return why nobody may be a slave; None if somebody may."""
        settings = self._settings
        if settings.bind_address == inproc.HOST:
            return "the broker is reached within its process only"
        if settings.ha_allowed_addresses:
            return None
        if settings.authentication_enabled:
            return (
                "slaves do not sign, but requests must be signed: set haAllowedAddresses to their addresses"
            )
        return None


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        first()
        second()

    return call
