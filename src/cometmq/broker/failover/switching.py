"""A broker whose role RocketMQ's controller decides: one ``Broker`` at a time, in the role that it has now.

Theory of operation: the store is opened and recovered first, so that a broker which needs long for that is
not elected meanwhile. Then the broker is *fenced*, as after each start: it listens at no port and is at no
name server, until the controller has said who is the master. A change of the role stops the ``Broker``,
which closes its store, and starts another one with other settings at the same port: so nothing of the old
role is left, and clients, who have lost their connections, connect again. Where only the epoch changes, or
the master of a slave, it goes on.

A slave whose log goes beyond its master's is stopped in the same way, truncated and started again: what is
cut off is set aside (``store/recovery/truncate.py``).

If a change fails, the process ends: a broker whose role is in doubt must not serve.
"""

import asyncio
from pathlib import Path

from cometmq.broker.broker import Broker, open_store
from cometmq.broker.name_servers.own_address import exposure, own_ip
from cometmq.broker.settings import BrokerSettings
from cometmq.errors import SettingsError
from cometmq.io.clock import Clock, SystemClock
from cometmq.io.files import Disk, FileLayer
from cometmq.io.write_health import WriteHealth, watched
from cometmq.logs import get_logger
from cometmq.net.address import address_text
from cometmq.net.client import Connections
from cometmq.net.tasks import until_one_ends
from cometmq.replication.controller.client import ControllerClient
from cometmq.replication.controller.identity import BrokerSet, IdentityFiles
from cometmq.replication.controller.in_sync_set import InSyncSet, Proposal
from cometmq.replication.controller.life import BrokerLife, MasterNews
from cometmq.replication.controller.membership import SetMembership
from cometmq.replication.controller.running import ControlledBroker
from cometmq.replication.epochs import EpochFile
from cometmq.replication.settings import BrokerRole
from cometmq.store.recovery.truncate import truncate_log
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.wire.headers import BrokerHeartbeatHeader

_log = get_logger(__name__)


class SwitchingBroker:
    """A broker under a controller.

    Args:
        load_kernels: see ``Broker``.

    Attributes:
        address: the address for clients, ``ip:port``.
        running: the broker in its present role; None while there is none.
        started: the broker that was started last, which may have stopped.

    Raises:
        SettingsError: the settings are no such broker's.
    """

    def __init__(
        self,
        settings: BrokerSettings,
        store_settings: StoreSettings | None = None,
        *,
        clock: Clock | None = None,
        files: FileLayer | None = None,
        load_kernels: bool = True,
    ) -> None:
        if not settings.network.listen_port:
            raise SettingsError("listenPort = 0 under a controller, which tells it to others: set a port")
        exposure(settings)  # refuses what Broker.start would, before the store is opened
        self.running: Broker | None = None
        self.started: Broker | None = None
        self.address = address_text(own_ip(settings.network), settings.network.listen_port)
        self._settings = settings
        self._store_settings = store_settings or StoreSettings()
        self._clock = clock or SystemClock()
        self._root = Path(settings.store_path_root_dir)
        self._files = watched(files or Disk(), WriteHealth(self._root, self._clock))
        self._load_kernels = load_kernels
        self._epochs = EpochFile(self._files, self._root)
        self._connections = Connections(
            credentials=settings.auth.inner_credentials, tls=settings.tls.name_server_tls
        )
        self._members = BrokerSet(settings.identity.broker_cluster_name, settings.identity.broker_name)
        self._identity = IdentityFiles(self._files, self._root, self._members)
        self._controlled: ControlledBroker | None = None
        self._opened: MessageStore | None = None  # until the first role
        self._membership: SetMembership | None = None
        self._news = MasterNews()
        self._ends = 0, 0  # of the log, and of what is confirmed, when no broker runs
        self._changing = asyncio.Lock()
        self._cuts: asyncio.Queue[tuple[SetMembership, int]] = asyncio.Queue()
        self._serves = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Recover the store, and wait until the controller has given the broker a role in which it serves.

        Raises what ``Broker.start`` raises, and StoreDamaged, SettingsError for a file about the set.
        """
        self._opened = store = await open_store(self._root, self._store_settings, self._files, self._clock)
        try:
            life = await asyncio.to_thread(self._load_life)
            self._ends = store.written_offset, store.confirm_offset
            client = ControllerClient(
                self._settings.replication.controllers, self._members, self._connections, self._clock.now_ms
            )
            self._controlled = ControlledBroker(life, client, self._identity, self, self.address, self._clock)
            self._task = asyncio.create_task(until_one_ends(self._controlled.run(), self._cut_all()))
            _log.info("broker %s waits for its role by a controller", self.address)
            serves = asyncio.create_task(self._serves.wait())
            await asyncio.wait((self._task, serves), return_when=asyncio.FIRST_COMPLETED)
            serves.cancel()
            if self._task.done():
                await self.ended()
        except BaseException:
            await self.stop()
            raise

    async def ended(self) -> None:
        """Wait until a change of the role has failed, and raise why."""
        assert self._task is not None, "it is started"
        try:
            await asyncio.shield(self._task)
        except ExceptionGroup as group:
            raise _first(group) from group

    async def stop(self) -> None:
        """Stop serving; then the controller may elect another master."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._stop_running()
        if self._opened is not None:
            self._opened.close()
            self._opened = None
        await self._connections.close()

    # What the controller makes of it: ``Roles``

    async def become_master(self, news: MasterNews, *, stays: bool) -> None:
        """Become the master of an epoch."""
        async with self._changing:
            if stays and self.running is not None:
                self._news = news
                await self.running.go_on(news)
            else:
                await self._restart(news)

    async def become_slave(self, news: MasterNews, *, stays: bool) -> None:
        """Follow a master; a slave changes masters without a restart."""
        del stays
        async with self._changing:
            if self.running is not None and self._membership is not None and not self._membership.is_master:
                self._news = news
                await self.running.go_on(news)
            else:
                await self._restart(news)

    async def settle_set(self, in_sync: frozenset[int], set_epoch: int) -> None:
        """Replace the sync state set by the controller's."""
        if self.running is not None:
            self.running.parts.replication.settle_set(in_sync, set_epoch)

    async def unfence(self) -> None:
        """Record that it serves: each ``Broker`` registers at the name servers when it starts."""
        self._serves.set()

    def heartbeat(self, broker_id: int) -> BrokerHeartbeatHeader:
        """Return the header of a heartbeat: by epoch and end of the log the controller chooses masters."""
        settings = self._settings
        if self.running is not None:
            store = self.running.store
            self._ends = store.written_offset, store.confirm_offset
        return BrokerHeartbeatHeader(
            settings.identity.broker_cluster_name,
            self.address,
            settings.identity.broker_name,
            broker_id=broker_id,
            epoch=self._epochs.epochs.last_epoch,
            max_offset=self._ends[0],
            confirm_offset=self._ends[1],
            heartbeat_timeout_ms=settings.replication.controller_heart_beat_timeout_mills,
            election_priority=settings.replication.broker_election_priority,
        )

    # What the running broker tells it: ``Overseer``

    def notified(self) -> None:
        """Ask the controller for the master, as it has given notice of another one."""
        if self._controlled is not None:
            self._controlled.notified()

    async def propose(self, in_sync: InSyncSet, proposal: Proposal) -> None:
        """Ask the controller for another sync state set."""
        if self._controlled is not None:
            await self._controlled.propose(in_sync, proposal)

    def truncate(self, offset: int) -> None:
        """Stop the broker soon, truncate its log at an offset, and start it again."""
        if self._membership is not None:
            self._cuts.put_nowait((self._membership, offset))

    def log_reached(self, epoch: int) -> None:
        """Handle that the log has records of an epoch."""
        if self._controlled is not None:
            self._controlled.life.log_reached(epoch)

    # Inside

    def _load_life(self) -> BrokerLife:
        """Read what is known of the broker's past. Raises StoreDamaged, SettingsError or OSError."""
        return BrokerLife(
            self.address,
            broker_id=self._identity.load_id(),
            application=self._identity.load_application(),
            log_epoch=self._epochs.load().last_epoch,
        )

    async def _cut_all(self) -> None:
        """Truncate the log whenever a slave has found that it must be."""
        while True:
            membership, offset = await self._cuts.get()
            async with self._changing:
                if membership is self._membership:  # else its role has changed meanwhile
                    await self._restart(self._news, cut_at=offset)

    async def _restart(self, news: MasterNews, *, cut_at: int | None = None) -> None:
        """Stop the broker, and start it in the role that it has by the news."""
        assert self._controlled is not None, "it is started"
        own_id = self._controlled.life.broker_id
        assert own_id is not None, "only brokers with an id get roles"
        await self._stop_running()
        if cut_at is not None:
            await asyncio.to_thread(self._truncate, cut_at)
        membership = SetMembership(own_id, news, self._epochs, self)
        settings = _in_role(self._settings, own_id, is_master=membership.is_master)
        broker = Broker(
            settings,
            self._store_settings,
            clock=self._clock,
            files=self._files,
            load_kernels=self._load_kernels,
            membership=membership,
        )
        self._membership, self._news = membership, news
        opened, self._opened = self._opened, None
        if (
            opened is not None
            and settings.replication.is_slave
            and opened.settings.transient_store_pool_enable
        ):
            await asyncio.to_thread(opened.close)  # the broker opens it without the pool, as slaves have none
            opened = None
        await broker.start(opened)
        self.running = self.started = broker
        _log.info("broker %s is %s of epoch %d", self.address, settings.replication.broker_role, news.epoch)

    async def _stop_running(self) -> None:
        running, self.running, self._membership = self.running, None, None
        if running is not None:
            end = running.store.written_offset
            await running.stop()
            self._ends = end, end

    def _truncate(self, offset: int) -> None:
        """Truncate the closed store, and its epochs after it. Raises StoreError, OSError."""
        truncate_log(self._root, self._store_settings, offset, files=self._files, clock=self._clock)
        self._epochs.save(self._epochs.epochs.cut_from(offset))


def _first(error: Exception) -> Exception:
    """Return the first error of groups within groups."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def _in_role(settings: BrokerSettings, own_id: int, *, is_master: bool) -> BrokerSettings:
    """Return the settings of a role: the controller's decision replaces ``brokerRole`` and ``brokerId``."""
    if is_master:
        return settings.changed(broker_role=BrokerRole.SYNC_MASTER, broker_id=0)
    return settings.changed(broker_role=BrokerRole.SLAVE, broker_id=own_id)
