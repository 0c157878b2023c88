"""A broker's part in replication: the port of a master's slaves, or a slave's link to its master.

What a broker is, its settings say (``brokerRole``), for as long as it runs: under a controller those that
``failover/switching.py`` starts it with.
"""

import logging
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from cometmq.access.failures import Failures
from cometmq.broker.auth.opening import BrokerUsers
from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import read
from cometmq.broker.settings import BrokerSettings
from cometmq.errors import SettingsError
from cometmq.logs import get_logger
from cometmq.message import Buffer
from cometmq.net import inproc
from cometmq.net.client import Connections
from cometmq.net.session import Session
from cometmq.net.tls.settings import TlsMode
from cometmq.replication.acks import AcksOfSlaves, SlaveAcks
from cometmq.replication.controller.life import MasterNews
from cometmq.replication.controller.master_part import MasterPart
from cometmq.replication.controller.membership import SetMembership
from cometmq.replication.controller.slave_part import SlavePart
from cometmq.replication.copies import Copies, SlaveTables
from cometmq.replication.entrance import Signers
from cometmq.replication.feeds import ClassicFeed, LogFeed
from cometmq.replication.intakes import ClassicIntake, LogIntake
from cometmq.replication.master import MasterPort
from cometmq.replication.settings import BrokerRole
from cometmq.replication.slave import MasterLink
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import encode
from cometmq.wire.bodies.stats import ReplicationStatus, SlaveConnection, SlaveStatus
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import NoFields, RegisterBrokerResponseHeader

_log = get_logger(__name__)


class Replication:
    """One broker's part in replication.

    Args:
        membership: the broker's place in its set; None without a controller.

    Args:
        users: who may be slaves if they sign; None where requests are not signed.

    Attributes:
        acks: what a master's slaves have acknowledged.
        port: a master's port for its slaves; None if it has none.
    """

    def __init__(
        self,
        store: MessageStore,
        settings: BrokerSettings,
        membership: SetMembership | None = None,
        users: BrokerUsers | None = None,
    ) -> None:
        self.port: int | None = None
        self._store = store
        self._settings, own = settings, settings.replication
        self._news = None if membership is None else membership.news
        acks = SlaveAcks(own.awaited_acks, own.ha_max_gap_not_in_sync, lambda: store.written_offset)
        self.acks: AcksOfSlaves = acks
        make_feed: Callable[[], LogFeed] = partial(ClassicFeed, store, acks, own)
        make_intake: Callable[[], LogIntake] = partial(ClassicIntake, store)
        self._master_part: MasterPart | None = None
        self._slave_part: SlavePart | None = None
        if membership is not None and membership.is_master:
            self._master_part = part = MasterPart(store, own, membership)
            self.acks, make_feed = part.acks, part.make_feed
        elif membership is not None:
            self._slave_part = SlavePart(store, membership)
            make_intake = self._slave_part.make_intake
        signers = None
        if users is not None:
            failures = Failures(settings.auth.failed_signatures_max, store.clock.monotonic_ms)
            signers = Signers(users.secret_of_super, failures)
        self._master = MasterPort(store, self._read, make_feed, own, settings.tls, signers)
        self._link = MasterLink(store, make_intake, own, settings.ha_tls, settings.auth.inner_credentials)
        self._copies: Copies | None = None

    @property
    def is_slave(self) -> bool:
        """Whether the broker follows a master."""
        return self._settings.replication.is_slave

    async def start(self, listen_port: int, tables: SlaveTables, stack: AsyncExitStack) -> None:
        """Begin to replicate, until the stack is closed.

        Raises SettingsError if a port cannot be used, OSError if the disk refuses.
        """
        settings = self._settings
        if not settings.replication.is_slave:
            if self._master_part is not None:
                await self._master_part.start()
            await self._listen(listen_port, stack)
            if self._master_part is not None:
                stack.push_async_callback(self._master_part.acks.close)  # before the slaves are cut off
            return
        connections = Connections(
            credentials=settings.auth.inner_credentials, tls=settings.tls.name_server_tls
        )
        received = self._store.received
        compare_end = self._link.compare_end if self._slave_part is None else self._check_link
        self._copies = Copies(connections, tables, lambda: received.end_offset, compare_end)
        self._link.start()
        self._copies.start()
        stack.push_async_callback(self._link.stop)
        stack.push_async_callback(self._copies.stop)

    def registered(self, answer: RegisterBrokerResponseHeader) -> None:
        """Follow the master that a name server has named; called after each registration.

        Under a controller only the one that the controller names: the name server may know it later.
        """
        if self._copies is None or not answer.master_addr:
            return
        if self._news is not None and answer.master_addr != self._news.address:
            return
        self._copies.set_address(answer.master_addr)
        if answer.ha_server_addr:
            self._link.set_address(answer.ha_server_addr)

    async def go_on(self, news: MasterNews) -> None:
        """Continue in a later epoch and the same role, a slave also under another master. Raises OSError."""
        assert self._news is not None, "it has a controller"
        is_moved = news.address != self._news.address
        self._news = news
        if self._master_part is not None:
            await self._master_part.go_on(news)
            self._master.wake()
        elif is_moved and self._copies is not None:
            self._copies.set_address(None)
            self._link.set_address(None)

    def settle_set(self, in_sync: frozenset[int], set_epoch: int) -> None:
        """Replace a master's sync state set by the controller's."""
        if self._master_part is not None:
            self._master_part.acks.settle(in_sync, set_epoch)

    def check_set(self) -> None:
        """Propose a set without slaves that are gone or slow, as a master; called every few seconds."""
        if self._master_part is not None:
            self._master_part.acks.check()

    def copy_soon(self) -> None:
        """Copy the master's tables now, not only when the next round is due."""
        if self._copies is not None:
            self._copies.go_on()

    @property
    def is_looking(self) -> bool:
        """Whether a slave is not connected to its master, whose address may have changed."""
        return self.is_slave and not self._link.is_connected

    @property
    def may_be_read(self) -> bool:
        """Whether the log is known to have nothing that an election has taken back."""
        return self._slave_part is None or self._slave_part.is_level

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
                is_in_sync=slave.is_in_sync,
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

    def _check_link(self, _own_end: int, _masters_end: int) -> None:
        """Check that a slave follows its master, having nothing that it lacks. Raises NetworkError."""
        self._link.check_connected()

    async def _read(self, offset: int, size_max: int) -> Buffer | None:
        return await read(self._store, self._store.readings.log_bytes(offset, size_max))

    async def _listen(self, listen_port: int, stack: AsyncExitStack) -> None:
        """Listen for slaves, if strangers cannot be among them."""
        settings, network = self._settings.replication, self._settings.network
        if (why := self._why_closed()) is not None:
            if settings.awaited_acks:
                raise SettingsError(f"sends wait for slaves (inSyncReplicas), but none can connect: {why}")
            level = logging.WARNING if settings.ha_listen_port is not None else logging.INFO
            _log.log(level, "no port for slaves: %s", why)
            return
        port = settings.ha_listen_port
        if port is None:
            port = listen_port + 1 if network.listen_port else 0
        try:
            self.port = await self._master.start(network.bind_address, port)
        except SettingsError as error:
            if settings.ha_listen_port is not None or settings.broker_role is BrokerRole.SYNC_MASTER:
                raise
            _log.warning("no port for slaves (haListenPort): %s. The broker goes on without slaves", error)
            return
        stack.push_async_callback(self._master.stop)
        if self._store.settings.transient_store_pool_enable:
            self._store.on_synced.append(self._master.wake)

    def _why_closed(self) -> str | None:
        """Return why nobody may be a slave; None if somebody may."""
        settings = self._settings
        if settings.network.bind_address == inproc.HOST:
            return "the broker is reached within its process only"
        needs_names = settings.auth.authentication_enabled and settings.tls.tls_mode is TlsMode.DISABLED
        if settings.replication.ha_allowed_addresses or not needs_names:
            return None
        return (
            "requests must be signed, and slaves sign by TLS only: set tlsServerCertPath, and on the "
            "slaves haTlsEnable, or set haAllowedAddresses to the addresses of those that cannot sign"
        )
