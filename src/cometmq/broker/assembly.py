"""The construction of the parts that answer requests: each gets only the few others that it needs."""

from collections.abc import Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

from cometmq.access.directory import Directory
from cometmq.broker.admin import live_settings
from cometmq.broker.admin.beginnings import Beginnings
from cometmq.broker.admin.broker import BrokerAdmin
from cometmq.broker.admin.broker_set import SetRequests
from cometmq.broker.admin.groups import GroupAdmin
from cometmq.broker.admin.live_settings import LiveSettings
from cometmq.broker.admin.offsets import OffsetAdmin
from cometmq.broker.admin.progress import GroupTables, OwnNames, ProgressAdmin
from cometmq.broker.admin.statistics import SAMPLE_MS, Statistics
from cometmq.broker.admin.store import StoreAdmin
from cometmq.broker.admin.timer import TimerAdmin
from cometmq.broker.admin.topics import TopicRequests
from cometmq.broker.auth.guarding import guard_of, may_be_asked
from cometmq.broker.auth.opening import open_users
from cometmq.broker.auth.plain_acl import FOLLOW_MS
from cometmq.broker.auth.requests import NoAccessRequests
from cometmq.broker.auth.stored_records import StoredRecords, may_be_sent
from cometmq.broker.client_calls import ClientCalls
from cometmq.broker.handlers import Requests, merged
from cometmq.broker.name_servers.own_address import exposure
from cometmq.broker.name_servers.topic_routes import TopicRoutes
from cometmq.broker.reads import Reads
from cometmq.broker.replication import Replication
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.requests.additions import additions_of
from cometmq.broker.requests.assignments import Assignments
from cometmq.broker.requests.bulk import Bulk
from cometmq.broker.requests.client_requests import ClientRequests
from cometmq.broker.requests.lock_requests import LockRequests
from cometmq.broker.requests.message_queries import MessageQueries
from cometmq.broker.requests.pop.acks import Acks
from cometmq.broker.requests.pop.checks import PopChecks
from cometmq.broker.requests.pop.disk_answers import DiskAnswers
from cometmq.broker.requests.pop.in_order import OrderedPops
from cometmq.broker.requests.pop.invisible_time import InvisibleTimes
from cometmq.broker.requests.pop.notification import Notifications
from cometmq.broker.requests.pop.peek import Peeks
from cometmq.broker.requests.pop.pop import Pops
from cometmq.broker.requests.pop.pop_offsets import PopOffsets
from cometmq.broker.requests.pop.sources import PopSources
from cometmq.broker.requests.pop.visits import Visits
from cometmq.broker.requests.pop.waiting import Waiting
from cometmq.broker.requests.positions import Positions
from cometmq.broker.requests.pull import PullRequests
from cometmq.broker.requests.rare_sends import RareSends
from cometmq.broker.requests.recalls import Recalls
from cometmq.broker.requests.relay import Relay
from cometmq.broker.requests.replies import ReplyRequests
from cometmq.broker.requests.retry import Retries
from cometmq.broker.requests.send import Sends
from cometmq.broker.requests.targets import Targets
from cometmq.broker.requests.transactions import Transactions
from cometmq.broker.safe_sends import SafeSends
from cometmq.broker.settings import Settings
from cometmq.broker.settings_by_subject import FilterSettings
from cometmq.broker.slave_requests import of_slave
from cometmq.broker.state.consumer_filters import ConsumerFilters
from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.idempotence import Idempotence
from cometmq.broker.state.in_flight import InFlight
from cometmq.broker.state.locks import QueueLocks
from cometmq.broker.state.newer_subscriptions import NewerSubscriptions
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.pop.consume_orders import ConsumeOrders
from cometmq.broker.state.pop.handles import Handles
from cometmq.broker.state.pop.message_modes import RequestModes
from cometmq.broker.state.pop.retry_topics import PopRetryTopics
from cometmq.broker.state.producers import Producers
from cometmq.broker.state.rates import Rates
from cometmq.broker.state.subscriptions import Subscriptions
from cometmq.broker.state.topics import Topics, boot_topics
from cometmq.broker.timed.delays import Delays
from cometmq.broker.timed.op_queue import OpQueue
from cometmq.broker.timed.revive import Revive
from cometmq.broker.timed.revive_log import ReviveLog
from cometmq.broker.timed.schedule import Schedule
from cometmq.broker.timed.timed_messages import TimedMessages
from cometmq.broker.timed.transaction_check import TransactionCheck, rules_of
from cometmq.filter import sql92
from cometmq.filter.bloom import BloomFilter
from cometmq.format import layout
from cometmq.format.host import pack_host
from cometmq.format.pop.names import revive_topic
from cometmq.io.clock import Clock
from cometmq.io.files import FileLayer
from cometmq.io.open_files import OpenFiles
from cometmq.net.address import address_text
from cometmq.net.server import Session
from cometmq.replication.controller.membership import SetMembership
from cometmq.store.store import MessageStore
from cometmq.store.tables import JsonTable
from cometmq.store.timer.timer import Timer


class Assembly:
    """One broker's parts over its open store.

    Args:
        address: the IP address and the port for clients.
        peers_clock: measures the silence of peers and the age of their locks; by default the same clock.
        membership: the broker's place in its set; None without a controller.
        directory: the directory of users to fill; None for one of its own.

    Attributes:
        guard: checks requests before these parts see them; None without authentication.
        rounds: the parts' work in the background, by name: its interval, ms, and the coroutine function.

    Raises:
        StoreDamaged: a table of the broker holds content of another type.
    """

    def __init__(
        self,
        settings: Settings,
        store: MessageStore,
        files: FileLayer,
        clock: Clock,
        address: tuple[str, int],
        peers_clock: Clock | None = None,
        membership: SetMembership | None = None,
        directory: Directory | None = None,
    ) -> None:
        own, host = settings.broker, pack_host(*address)
        bodies = RequestBodies(own.bodies.limits)
        peers_clock = peers_clock or clock
        table = _tables(files, store.root)
        self.topics = Topics(
            table("topics"), clock, boot_topics(own), auto_create=own.topics.auto_create_topic_enable
        )
        self.offsets = Offsets(table("consumerOffset"), clock)
        self.rates = Rates(clock)
        groups = Groups(
            table("subscriptionGroup"), clock, auto_create=own.topics.auto_create_subscription_group
        )
        self.groups = groups
        self.filters = _filters(table("consumerFilter"), own.filters, store, clock)
        self.topics.load()
        groups.load()
        self.offsets.load(store.max_queue_offset, store.wait_flushed)
        self.filters.load(trusted=store.recovered.clean)
        self.orders = ConsumeOrders(table("consumerOrderInfo"), clock)
        self.orders.load(self._has_queue)
        self.offsets.on_delete.append(self.orders.delete)
        if own.filters.enable_calc_filter_bit_map:
            store.calculate_bitmaps(self.filters.bitmap)
        self.schedule = Schedule(store, table("delayOffset"))
        self.schedule.load()
        timer = Timer(OpenFiles(files, writable=True), store.root, store.settings)
        self.timed_messages = TimedMessages(store, timer, clock)

        self.reads = Reads(store)
        self.producers = producers = Producers[Session](peers_clock)
        self.consumers = consumers = Consumers[Session](peers_clock, on_empty=self.filters.unregister)
        self.locks = QueueLocks(table("queueLocks"), peers_clock)
        self.locks.load()
        self.lock_requests = LockRequests(self.locks, bodies)
        permission = own.broker_permission
        subscriptions = Subscriptions(
            self.topics,
            groups,
            consumers,
            self.filters,
            permission=permission,
            property_filter=own.filters.enable_property_filter,
            filter_retry=own.filters.filter_support_retry,
        )
        self.pulls = PullRequests(
            store,
            self.reads,
            subscriptions,
            self.offsets,
            self.rates,
            clock,
            short_polling_ms=own.pulls.short_polling_ms,
            lite_pull=own.pulls.lite_pull_message_enable,
        )
        self.clients = ClientRequests(
            producers,
            consumers,
            self.filters,
            subscriptions,
            groups,
            self.topics,
            peers_clock,
            own,
        )
        self.idempotence = Idempotence(store, table("idempotence"), own.idempotence, clock)
        targets = Targets(self.topics, groups, self.locks, permission=permission)
        constants = {"MSG_REGION": own.region_id, "TRACE_ON": str(own.trace_on).lower()}
        delays = Delays(store.settings, clock)
        rare = RareSends(
            *(targets, additions_of(own, host, clock), self.idempotence, delays),
            broker_name=own.identity.broker_name,
            rejects_transactions=own.transactions.reject_transaction_message,
            body_size_max=store.settings.max_message_size,
            store_host=host,
        )
        self.replication = Replication(store, own, membership)
        self.pulls.suggest(groups, self.replication, own.replication)
        self.safe = SafeSends(store, self.replication.acks, own.replication)
        self.sends = sends = Sends(
            *(store, targets, rare, self.safe, self.rates),
            store_host=host,
            constants=constants,
            overload=own.overload,
            flow=own.flow,
        )
        rules = rules_of(own.transactions, settings.store.file_reserved_time)
        retry_topics = PopRetryTopics(self.topics, groups, self.offsets)
        log = ReviveLog(
            store,
            delays,
            clock,
            revive_topic(own.identity.broker_cluster_name),
            host,
            own.identity.broker_name,
        )
        self.timed_messages.settled = log.settled
        self.in_flight = in_flight = InFlight(clock.now_ms())
        self.offsets.on_delete.append(in_flight.delete)
        self.beginnings = Beginnings(consumers, self.offsets, store.min_queue_offset)
        consumers.on_remove.append(self.offsets.forget_begun)
        pop_offsets = PopOffsets(
            *(store, self.offsets, self.safe.disk),
            begins_young=own.pop.init_pop_offset_by_check_msg_in_mem,
        )
        self.waiting = waiting = Waiting(store, self.topics, clock, own.pop)
        checks = PopChecks(subscriptions, settings.store, own.identity.broker_name)
        self.sources = sources = PopSources(self.topics, own.pop)
        ordered = OrderedPops(self.orders, pop_offsets, in_flight, waiting, clock)
        visits = Visits(store, sources, pop_offsets, ordered, in_flight, log, own.pop)
        answers = DiskAnswers(store, groups, self.safe.disk)
        handles = Handles(store, self.topics, own.pop)
        acks = Acks(log, ordered, handles, in_flight, answers, bodies, self.rates)
        pops = (
            Pops(checks, ordered, visits, self.reads, waiting, answers, self.rates, clock),
            acks,
            InvisibleTimes(log, ordered, handles, checks, answers, broker_name=own.identity.broker_name),
            Peeks(store, checks, sources, pop_offsets, self.reads),
            Notifications(store, checks, sources, ordered, pop_offsets, self.reads, waiting),
        )
        self.revive = Revive(
            *(store, self.timed_messages, self.topics, groups, self.offsets, in_flight, log, own.pop),
        )
        self.modes = RequestModes(table("messageRequestMode"))
        self.modes.load()
        groups.on_delete(self.modes.delete_groups)
        self.assignments = Assignments(
            *(self.topics, groups, consumers, self.modes, self.reads),
            TopicRoutes(self.topics, own, clock),
            bodies,
            own.assignments,
        )
        self.ops = OpQueue(
            store, self.offsets, clock, store_host=host, size_max=own.transactions.transaction_op_msg_max_size
        )
        self.transaction_check = TransactionCheck(
            store, self.topics, producers, self.ops, rules, broker_name=own.identity.broker_name
        )
        self._settings = LiveSettings(settings, table(live_settings.TABLE), clock, self._apply)
        queries = MessageQueries(store, self.reads, self.rates)
        self.statistics = Statistics(
            store, self.offsets, consumers, self.rates, clock, cluster=own.identity.broker_cluster_name
        )
        self.calls = calls = ClientCalls()
        self.pulls.newer = NewerSubscriptions(
            consumers, self.filters, calls, size_max=own.bodies.limits.list_bytes
        )
        self._replies = ReplyRequests(
            *(store, targets, producers, calls, self.rates),
            store_host=host,
            constants=constants,
            stores=own.store_reply_message_enable,
        )
        self._recalls = Recalls(
            *(store, self.topics, delays, self.safe.disk, self.rates, clock, own), store_host=host
        )
        self._transactions = Transactions(store, self.reads, self.ops, self.rates, delays, rules)
        self._store, self._rare = store, rare
        tables = GroupTables(groups, consumers, self.offsets, self.beginnings, in_flight)
        has_users = own.auth.authentication_enabled
        self.users = users = open_users(own.auth, files, store.root, directory) if has_users else None

        relay = Relay(consumers, store, self.reads, calls, bodies, broker_name=own.identity.broker_name)
        parts = (
            self.pulls,
            *pops,
            self.assignments,
            self.clients,
            relay,
            self._replies,
            self._recalls,
            self.lock_requests,
            queries,
            Positions(store, self.reads, self.topics, groups, self.offsets),
            Retries(
                *(store, self.reads, self.topics, groups, self.rates, delays),
                store_host=host,
                permission=permission,
            ),
            self._transactions,
            TopicRequests(
                *(self.topics, store, self.reads, tables, self.statistics),
                retry_topics if own.pop.clear_retry_topic_when_delete_topic else None,
                own.bodies,
                broker_name=own.identity.broker_name,
            ),
            GroupAdmin(
                groups, consumers, producers, self.offsets, self.reads, own.bodies, clock, retry_topics
            ),
            ProgressAdmin(
                tables,
                self.topics,
                store,
                self.reads,
                self.statistics,
                OwnNames(own.identity.broker_name, address_text(*address)),
            ),
            TimerAdmin(self.timed_messages, self.topics, self.reads, clock),
            OffsetAdmin(
                tables,
                self.topics,
                (self.pulls.offsets_reset, in_flight.clear, waiting.wake_all),
                store,
                self.reads,
                broker_name=own.identity.broker_name,
            ),
            BrokerAdmin(
                *(self._settings, store, files, self.reads, self.rates, self.consumers, clock),
                warnings=partial(_warnings, exposure(own), self.replication),
            ),
            StoreAdmin(self.topics, store, self.offsets, self.modes, self.reads, self.pulls.offsets_reset),
            self.statistics,
            self.schedule,
            self.replication,
            SetRequests(membership, store, own.identity),
            NoAccessRequests() if users is None else users.requests(self.reads, bodies),
        )
        self.rounds: dict[str, tuple[int, Callable[[], Coroutine[Any, Any, None]]]] = {
            "statistics": (SAMPLE_MS, self.statistics.sample),
        }
        if not own.replication.is_slave:
            self.rounds["transactions"] = (
                own.transactions.transaction_check_interval,
                self.transaction_check.round,
            )
        if users is not None and users.plain_acl is not None:
            self.rounds["plain_acl.yml"] = (FOLLOW_MS, users.plain_acl.round)
        handlers = merged(part.handlers() for part in parts)
        if own.replication.is_slave:
            handlers = of_slave(
                handlers,
                answers_pulls=own.replication.slave_read_enable,
                may_be_read=lambda: self.replication.may_be_read,
            )
        self.guard = None if users is None else guard_of(users.directory, own, peers_clock)
        if self.guard is not None:
            handlers = StoredRecords(store, self.reads, self.guard).checked(handlers)
            self.transaction_check.may_ask = partial(may_be_asked, self.guard)
            relay.may_send = partial(may_be_sent, self.guard)
        self.bulk = Bulk(sends, self.pulls, queries, acks)
        self.requests = Requests(
            sends.handle,
            handlers,
            calls.answered,
            [self.pulls.closed, waiting.closed, self.reads.closed, self.clients.closed, calls.closed],
        )

    def _has_queue(self, group: str, topic: str, queue_id: int) -> bool:
        config = self.topics.find(topic)
        return (
            config is not None and queue_id < config.read_queue_count and self.groups.find(group) is not None
        )

    def _apply(self, settings: Settings) -> None:
        """Pass changed settings, of ``live_settings.CHANGEABLE``, to the parts that use them."""
        own = settings.broker
        self.topics.follow(own)
        self.groups.auto_create = own.topics.auto_create_subscription_group
        self.pulls.short_polling_ms = own.pulls.short_polling_ms
        self.clients.notify_enabled = own.notify_consumer_ids_changed_enable
        self._rare.rejects_transactions = own.transactions.reject_transaction_message
        self._replies.stores = own.store_reply_message_enable
        self._recalls.settings = own
        self._transactions.rules = self.transaction_check.rules = rules_of(
            own.transactions, settings.store.file_reserved_time
        )
        self._store.retention.configure(settings.store)
        self._store.readings.configure(settings.store)

    async def stop_saving(self) -> None:
        """Save all changes of topics, groups, their modes and settings, and stop retries."""
        await self._settings.settled()
        await self.topics.stop()
        await self.groups.stop()
        await self.modes.stop()
        if self.users is not None:
            await self.users.tables.stop()


def _warnings(insecure: str, replication: Replication) -> dict[str, str]:
    """Return what is insecure about the broker, and why it does not replicate, as far as there is any."""
    found = {"insecure": insecure, "replicationProblems": "; ".join(replication.problems())}
    return {name: text for name, text in found.items() if text}


def _tables(files: FileLayer, root: Path) -> Callable[[str], JsonTable]:
    return lambda name: JsonTable(files, layout.config_path(root, name))


def _filters(
    table: JsonTable, settings: FilterSettings, store: MessageStore, clock: Clock
) -> ConsumerFilters:
    if settings.enable_property_filter:
        sql92.prepare()
    bloom = BloomFilter(settings.max_error_rate_of_bloom_filter, settings.expect_consumer_num_use_filter)
    return ConsumerFilters(
        table,
        clock,
        bloom,
        keep_ms=settings.filter_data_clean_time_span,
        stored_time=lambda: store.dispatched_time,
    )
