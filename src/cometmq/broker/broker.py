"""The broker: its start, its periodic work and its stop, each in order."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from cometmq import kernels
from cometmq.access.directory import Directory
from cometmq.broker.admin import live_settings
from cometmq.broker.assembly import Assembly
from cometmq.broker.auth.guarding import newcomer_limits, serve
from cometmq.broker.handlers import Starting
from cometmq.broker.metrics.monitor import Monitor, RunningBroker
from cometmq.broker.name_servers.own_address import exposure, own_ip
from cometmq.broker.name_servers.registration import NameServers
from cometmq.broker.replication import Replication
from cometmq.broker.requests.pop.handed_out import restore_left, restore_offsets
from cometmq.broker.settings import BrokerSettings, Settings
from cometmq.broker.state.changing_table import ChangingTable
from cometmq.broker.timed.revive import Revive
from cometmq.broker.timed.schedule import Schedule
from cometmq.broker.timed.timed_messages import TimedMessages
from cometmq.broker.timers import Alarm, Periodic
from cometmq.errors import SettingsError, StoreNotWritable
from cometmq.format import layout
from cometmq.format.delay_level import SCHEDULE_TOPIC
from cometmq.format.timer.log import TIMER_TOPIC
from cometmq.io import memory
from cometmq.io.clock import Clock, SystemClock
from cometmq.io.files import Disk, FileLayer
from cometmq.io.write_health import WriteHealth, watched
from cometmq.logs import get_logger
from cometmq.net.address import address_text
from cometmq.net.server import Server
from cometmq.net.tls.server import server_tls
from cometmq.replication.controller.life import MasterNews
from cometmq.replication.controller.membership import SetMembership
from cometmq.replication.copies import SlaveTables
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.store.tables import JsonTable

VIP_PORT_BELOW: Final = 2
"""Distance of the VIP port below the listen port."""
VIP_PORT: Final = f"VIP port (listenPort - {VIP_PORT_BELOW})"

TICK_MS: Final = 1_000
UPKEEP_MS: Final = 200
"""Interval at which the store writes back a part of its memory."""
BEHIND_MS: Final = 10
"""The same interval while more is due than one call writes."""
SILENCE_CHECK_MS: Final = 10_000
LOOK_MS: Final = 5_000
"""Interval at which a slave without a connection asks name servers for its master …"""
LOOK_AGAIN_MS: Final = 1_000
"""… and under a controller, where that has just been elected and sends may wait for the slave."""
CHECK_SET_MS: Final = 5_000
"""Interval at which a master looks who is in sync (RocketMQ: ``checkSyncStateSetPeriod``)."""
FILTERS_SAVE_MS: Final = 10_000
ORDERS_SAVE_MS: Final = 10_000

TIMED: Final = "timed messages"
REVIVE: Final = "revive"

_log = get_logger(__name__)


class Broker:
    """One broker: a store, and the requests that it answers from it.

    Args:
        clock: the time of the store and of all that expires.
        peers_clock: measures the silence of peers and the age of their locks; by default the same clock.
        files: the file layer of the store.
        load_kernels: whether to load the compiled operations in the background.
        membership: the broker's place in its set; None without a controller. The settings say the same role.
        users: the directory of users to fill, if a name server of this process checks requests by it, too.

    Attributes:
        port: the listen port; valid, as the other attributes, once the broker is started.
        vip_port: the VIP port, None if it does not listen there.
        address: the address for clients, ``ip:port``.
        metrics_address: where ``/metrics``, ``/healthz`` and ``/readyz`` are, ``host:port``, or None.
        store: its open store.
        server: passes requests of peers to ``parts``.
        parts: the handlers and their state: code that embeds a broker may use them in its loop.
    """

    store: MessageStore
    server: Server
    parts: Assembly

    def __init__(
        self,
        settings: BrokerSettings,
        store_settings: StoreSettings | None = None,
        *,
        clock: Clock | None = None,
        peers_clock: Clock | None = None,
        files: FileLayer | None = None,
        load_kernels: bool = True,
        membership: SetMembership | None = None,
        users: Directory | None = None,
    ) -> None:
        self.port = settings.network.listen_port
        self.vip_port: int | None = None
        self.address = ""
        self.metrics_address: str | None = None
        self._settings = Settings(settings, store_settings or StoreSettings()).of_role()
        self._clock = clock or SystemClock()
        self._peers_clock = peers_clock or self._clock
        self._root = Path(settings.store_path_root_dir)
        self._files = watched(files or Disk(), WriteHealth(self._root, self._clock))
        self._load_kernels = load_kernels
        self._membership = membership
        self._users = users
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._alarms: list[Alarm] = []
        self._started = AsyncExitStack()
        self._stopping = False

    async def start(self, store: MessageStore | None = None) -> None:
        """Open the store, listen, and register with the name servers.

        Args:
            store: its store, if the caller has opened it (``open_store``); the broker closes it.

        Raises:
            SettingsError: an address or a file of TLS cannot be used, or a setting that was changed at run
                time; or strangers could use the broker.
            StoreLocked: another process has the store open.
            StoreDamaged: a file of the store cannot be used as it is.
            StoreNotWritable: the disk is full.
            OSError: the disk refuses.
        """
        async with AsyncExitStack() as stack:
            if store is not None:
                stack.callback(store.close)
            table = JsonTable(self._files, layout.config_path(self._root, live_settings.TABLE))
            self._settings = live_settings.with_saved_changes(self._settings, table)
            settings = self._settings.broker
            network = settings.network
            if settings.replication.enable_controller_mode and self._membership is None:
                raise SettingsError("enableControllerMode: only `cometmq broker` runs under a controller")
            if insecure := exposure(settings):
                _log.warning("broker %s is %s", settings.identity.broker_name, insecure)
            tls = server_tls(settings.tls)
            monitor = Monitor(settings.metrics, settings.identity)
            await monitor.start(stack)
            self.metrics_address = monitor.address
            if store is None:
                store = await open_store(self._root, self._settings.store, self._files, self._clock)
                stack.callback(store.close)
            self.store = store
            self.server = server = Server(
                Starting(),
                clock=self._peers_clock,
                limits=settings.flow.limits,
                late_ms=settings.overload.wait_time_mills_in_send_queue,
                connections_max=settings.max_connections or None,
                tls=tls,
                idle_ms_max=settings.server_channel_max_idle_time_seconds * 1000,
            )
            stack.push_async_callback(server.stop)
            ip = own_ip(network)
            self.port = await server.start(
                settings.network.bind_address, settings.network.listen_port, "broker"
            )
            self.address = address_text(ip, self.port)
            if network.vip_channel_enable:
                await self._listen_at_vip_port(server)
            self.parts = parts = Assembly(
                self._settings,
                store,
                self._files,
                self._clock,
                (ip, self.port),
                self._peers_clock,
                membership=self._membership,
                directory=self._users,
            )
            stack.callback(self._save_tables, parts)
            await asyncio.to_thread(parts.idempotence.load)
            await parts.ops.read_on()
            if settings.replication.is_slave:
                store.be_slave("this broker is a slave: messages are sent to its master")
            else:
                await parts.timed_messages.load()
            if not store.recovered.clean:
                await restore_pop_offsets(store, parts, self._files, settings.pop.revive_queue_num)
            await restore_left(store, parts.revive.log)
            stack.push_async_callback(parts.stop_saving)
            replication = parts.replication
            await replication.start(self.port, slave_tables(parts), stack)
            if self._membership is not None:
                parts.topics.enter_epoch(self._membership.news.epoch)
            name_servers = NameServers(
                parts.topics, settings, self.address, replication.port, replication.registered
            )
            name_servers.begin()
            serve(server, parts.requests, parts.bulk if self._is_bulk_served else None, parts.guard)
            if parts.guard is not None:
                server.limit_newcomers(newcomer_limits(settings.auth, self._settings.store.max_message_size))
            stack.push_async_callback(parts.lock_requests.stop)
            stack.push_async_callback(parts.assignments.stop)
            stack.push_async_callback(self._finish_tasks)
            stack.callback(parts.schedule.stop)
            stack.callback(parts.timed_messages.stop)
            stack.callback(parts.revive.stop)
            stack.callback(parts.transaction_check.stop)
            stack.callback(self._begin_periodic(parts, name_servers).stop)
            # What is due is delivered by the master, and comes with its log.
            if not settings.replication.is_slave:
                stack.callback(self._set_alarms(store, parts).close)
            if self._load_kernels:
                stack.push_async_callback(asyncio.to_thread, kernels.load_in_background().stop)
            stack.push_async_callback(name_servers.stop)
            await name_servers.wait_known()
            monitor.show(
                RunningBroker(parts, store, self._files, server, name_servers, settings.broker_permission),
                stack,
            )
            self._started = stack.pop_all()
        _log.info("broker %s serves at %s", settings.identity.broker_name, self.address)

    async def _listen_at_vip_port(self, server: Server) -> None:
        """Listen at the VIP port, too; if that fails, log it and continue the start."""
        port = self.port - VIP_PORT_BELOW
        try:
            if port < 1:
                raise SettingsError(f"{VIP_PORT}: there is no port {port}")  # noqa: TRY301  handled like a port in use
            self.vip_port = await server.start(self._settings.broker.network.bind_address, port, VIP_PORT)
        except SettingsError as error:
            _log.warning(
                "%s. Clients that use it, as the dashboard and Java clients up to 4.4 do, cannot reach this "
                "broker by it; vipChannelEnable=false switches it off",
                error,
            )

    async def stop(self) -> None:
        """Unregister, close the connections, save all tables and close the store."""
        self._stopping = True
        await self._started.aclose()

    async def go_on(self, news: MasterNews) -> None:
        """Continue in a later epoch and the same role, a slave also under another master. Raises OSError."""
        self.parts.topics.enter_epoch(news.epoch)
        await self.parts.replication.go_on(news)

    @property
    def _is_bulk_served(self) -> bool:
        """Whether usual requests become rows: not where each pull is looked at, as it may be refused."""
        settings, membership = self._settings.broker, self._membership
        return settings.replication.may_be_read and (membership is None or membership.is_master)

    def _begin_periodic(self, parts: Assembly, name_servers: NameServers) -> Periodic:
        periodic = Periodic()
        for action in (parts.pulls.expire, parts.rates.sample, self._remove_expired, self._remove_deleted):
            periodic.every(TICK_MS, action)
        periodic.every(UPKEEP_MS, self._tick)
        periodic.every(SILENCE_CHECK_MS, parts.clients.close_silent)
        interval_ms = self._settings.broker.flush_consumer_offset_interval
        periodic.every(interval_ms, lambda: self._write("offsets", parts.offsets))
        periodic.every(FILTERS_SAVE_MS, lambda: self._write("filters", parts.filters))
        periodic.every(ORDERS_SAVE_MS, lambda: self._write("orders", parts.orders))
        interval_ms = self._settings.broker.flush_delay_offset_interval
        periodic.every(interval_ms, lambda: self._write("schedule", parts.schedule))
        interval_ms = self._settings.store.timer_flush_interval_ms
        periodic.every(interval_ms, lambda: self._begin_alone("timer", parts.timed_messages.save))
        periodic.every(TICK_MS, parts.safe.compare)
        look_ms = LOOK_MS if self._membership is None else LOOK_AGAIN_MS
        periodic.every(look_ms, partial(_find_master, parts.replication, name_servers))
        periodic.every(CHECK_SET_MS, parts.replication.check_set)
        for name, (interval_ms, work) in parts.rounds.items():
            periodic.every(interval_ms, partial(self._begin_alone, name, work))
        return periodic

    def _set_alarms(self, store: MessageStore, parts: Assembly) -> ExitStack:
        """Set alarms for delayed and timed messages that arrive or are due; return what stops them."""
        delayed = Alarm(lambda: self._deliver_delayed(parts.schedule))
        revive = Alarm(lambda: self._revive(parts.revive, revive))
        timed = Alarm(lambda: self._deliver_timed(parts.timed_messages, timed))
        parts.schedule.on_change.append(delayed.ring)
        store.on_arrival_of(SCHEDULE_TOPIC, delayed.ring)
        store.on_arrival_of(TIMER_TOPIC, timed.ring)
        store.on_arrival_of(parts.revive.topic, revive.ring)
        held = Alarm(parts.waiting.expire)
        parts.waiting.on_hold.append(held.ring)
        self._alarms = [delayed, timed, held, revive]
        self.look_again()
        stack = ExitStack()
        for alarm in self._alarms:
            stack.callback(alarm.stop)
        return stack

    def look_again(self) -> None:
        """Deliver the messages that are due by now, after the clock was set by hand."""
        for alarm in self._alarms:
            alarm.ring()

    def _tick(self) -> int:
        """Run the store's upkeep, with syncs of its files in a thread; return when to call it again, ms."""
        store = self.store
        if paths := store.tick(begins_round="sync" not in self._tasks):
            dispatched_time = store.dispatched_time

            async def sync() -> None:
                await asyncio.to_thread(store.sync_files, paths)
                store.vouch(dispatched_time)
                memory.trim_heap()  # after a round hardly anything is in memory only

            self._begin("sync", sync())
        return BEHIND_MS if store.is_behind else UPKEEP_MS

    def _remove_expired(self) -> None:
        """Remove the store's expired files, one by one, in a thread."""
        retention = self.store.retention
        if "retention" in self._tasks or not retention.is_due():
            return

        async def remove() -> None:
            for removal in retention.round():
                if removal.paths:
                    await asyncio.to_thread(retention.remove, removal.paths)
                if self._stopping:
                    return
                await asyncio.sleep(removal.pause_ms / 1000)

        self._begin("retention", remove())

    def _remove_deleted(self) -> None:
        """Remove the files of deleted queues, in a thread."""
        deletions = self.store.deletions
        if deletions.has_files:
            self._begin_alone("deleted files", partial(asyncio.to_thread, deletions.remove_files))

    def _deliver_delayed(self, schedule: Schedule) -> int | None:
        """Deliver delayed messages that are due; return when to call it again, ms."""
        return 0 if schedule.deliver() else schedule.wait_ms()

    def _deliver_timed(self, timed_messages: TimedMessages, again: Alarm) -> int | None:
        """Start a round of timed messages if one is due; return when to call it again, ms."""
        wait_ms = timed_messages.wait_ms()
        if wait_ms != 0:
            return wait_ms

        if TIMED not in self._tasks:
            self._begin(TIMED, timed_messages.round())
            self._tasks[TIMED].add_done_callback(lambda _: again.ring())  # once another round may begin
        return None

    def _revive(self, revive: Revive, again: Alarm) -> int | None:
        """Start a round of the revive if one is due; return when to call it again, ms."""
        wait_ms = revive.wait_ms()
        if wait_ms != 0:
            return wait_ms
        if REVIVE not in self._tasks:
            self._begin(REVIVE, revive.round())
            self._tasks[REVIVE].add_done_callback(lambda _: again.ring())  # once another round may begin
        return None

    def _write(self, name: str, table: ChangingTable[Any, Any]) -> None:
        """Write a changing table in a thread, unless a write is under way."""
        if name not in self._tasks and (changes := table.take_changed()) is not None:
            self._begin(name, asyncio.to_thread(table.write, changes))

    def _save_tables(self, parts: Assembly) -> None:
        """Write the changing tables when the broker stops, blocking."""
        parts.ops.write()
        for save in (
            parts.offsets.save,
            parts.filters.save,
            parts.orders.save,
            parts.schedule.save,
            parts.timed_messages.close,
            parts.locks.save,
        ):
            try:
                save()
            except (OSError, StoreNotWritable) as error:
                _log.error("changes of the last seconds are not all saved: %s", error)

    def _begin_alone(self, name: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start work in the background, unless work of this name runs."""
        if name not in self._tasks:
            self._begin(name, work())

    def _begin(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Start work in the background; no other work of this name may run."""
        self._tasks[name] = task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[None]") -> None:
        del self._tasks[task.get_name()]
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("background task %s failed, it will be retried: %s", task.get_name(), error)

    async def _finish_tasks(self) -> None:
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)


def _find_master(replication: Replication, name_servers: NameServers) -> None:
    """Ask the name servers for a slave's master while it has no connection to it."""
    if replication.is_looking:
        name_servers.register_soon()


async def open_store(root: Path, settings: StoreSettings, files: FileLayer, clock: Clock) -> MessageStore:
    """Open a broker's store in a thread: recovery may take long, and the loop must not block.

    Raises StoreLocked, StoreDamaged, StoreNotWritable or OSError.
    """
    run_soon = asyncio.get_running_loop().call_soon_threadsafe
    return await asyncio.to_thread(
        MessageStore.open, root, settings, files=files, clock=clock, run_soon=run_soon
    )


async def restore_pop_offsets(
    store: MessageStore, parts: Assembly, files: FileLayer, revive_queue_count: int
) -> None:
    """Restore from the log the offsets of pops that a killed broker had not saved. Raises OSError."""
    path = layout.config_path(store.root, "consumerOffset")
    saved_ms = files.modified_ms(path) if files.exists(path) else 0
    queues = parts.revive.topic, revive_queue_count
    moved = await restore_offsets(store, parts.offsets, parts.groups, *queues, saved_ms)
    if moved:
        _log.info("%d offsets of pops were not saved; they are restored from the log", moved)


def slave_tables(parts: Assembly) -> SlaveTables:
    """Return the tables that a slave copies from its master."""
    return SlaveTables(
        parts.topics.follow_master,
        parts.groups.follow_master,
        parts.offsets.follow_master,
        parts.schedule.follow_master,
        parts.modes.follow_master,
        parts.timed_messages.follow_master,
    )
