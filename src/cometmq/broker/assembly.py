"""The parts that answer requests, put together: each gets the few others that it needs, nobody the whole."""

import os
from collections.abc import Callable
from pathlib import Path

from cometmq.broker.additions import Additions
from cometmq.broker.admin_broker import BrokerAdmin
from cometmq.broker.admin_groups import GroupAdmin
from cometmq.broker.admin_offsets import OffsetAdmin
from cometmq.broker.admin_store import StoreAdmin
from cometmq.broker.admin_topics import TopicAdmin
from cometmq.broker.asking import Asking
from cometmq.broker.bulk import Bulk
from cometmq.broker.client_requests import ClientRequests
from cometmq.broker.consumer_filters import ConsumerFilters
from cometmq.broker.consumers import Consumers
from cometmq.broker.delays import Delays
from cometmq.broker.groups import Groups
from cometmq.broker.idempotence import Idempotence
from cometmq.broker.lock_requests import LockRequests
from cometmq.broker.locks import QueueLocks
from cometmq.broker.offsets import Offsets
from cometmq.broker.op_queue import OpQueue
from cometmq.broker.producers import Producers
from cometmq.broker.pull import Pulls
from cometmq.broker.query import Queries
from cometmq.broker.rates import Rates
from cometmq.broker.reads import Reads
from cometmq.broker.recalls import Recalls
from cometmq.broker.relay import Relay
from cometmq.broker.replies import Replies
from cometmq.broker.requests import Handler, Requests
from cometmq.broker.retry import Retries
from cometmq.broker.schedule import Schedule
from cometmq.broker.send import Sends
from cometmq.broker.settings import BrokerSettings, Settings
from cometmq.broker.subscriptions import Subscriptions
from cometmq.broker.targets import Targets
from cometmq.broker.timed_messages import TimedMessages
from cometmq.broker.topics import Topics, boot_topics
from cometmq.broker.transaction_check import TransactionCheck
from cometmq.broker.transactions import Transactions
from cometmq.cluster.transaction import Rules
from cometmq.filter import sql92
from cometmq.filter.bloom import BloomFilter
from cometmq.format import layout
from cometmq.format.host import pack_host
from cometmq.format.java_hash import java_hash
from cometmq.format.message_id import UniqueIdMaker
from cometmq.io.clock import Clock
from cometmq.io.files import FileLayer
from cometmq.io.open_files import OpenFiles
from cometmq.net.server import Session
from cometmq.store.store import MessageStore
from cometmq.store.tables import JsonTable
from cometmq.store.timer import Timer
from cometmq.wire.codes import RequestCode

PORT_SIZE = 4


class Assembly:
    """One broker's parts over its open store.

    Args:
        ip: under which clients reach the broker.
        port: under which clients reach the broker.
        peers_clock: measures how long peers are silent and their locks hold; by default the same clock.

    Raises:
        StoreDamaged: a table of the broker holds something else than it should.
    """

    def __init__(
        self,
        settings: Settings,
        store: MessageStore,
        files: FileLayer,
        clock: Clock,
        ip: str,
        port: int,
        peers_clock: Clock | None = None,
    ) -> None:
        own, host = settings.broker, pack_host(ip, port)
        peers_clock = peers_clock or clock
        table = _tables(files, store.root)
        self.topics = Topics(
            table("topics"), clock, boot_topics(own), auto_create=own.auto_create_topic_enable
        )
        self.offsets = Offsets(table("consumerOffset"), clock)
        self.rates = Rates(clock)
        groups = Groups(table("subscriptionGroup"), clock, auto_create=own.auto_create_subscription_group)
        self.groups = groups
        self.filters = _filters(table("consumerFilter"), own, store, clock)
        self.topics.load()
        groups.load()
        self.offsets.load(store.max_queue_offset)
        self.filters.load(trusted=store.recovered.clean)
        if own.enable_calc_filter_bit_map:
            store.calculate_bitmaps(self.filters.bitmap)
        self.schedule = Schedule(store, table("delayOffset"))
        self.schedule.load()
        timer = Timer(OpenFiles(files, writable=True), store.root, store.settings)
        self.timed_messages = TimedMessages(store, timer, clock)

        self.reads = Reads(store)
        producers = Producers[Session](peers_clock)
        self.consumers = consumers = Consumers[Session](peers_clock, on_empty=self.filters.unregister)
        self.locks = QueueLocks(table("queueLocks"), peers_clock)
        self.locks.load()
        self.lock_requests = LockRequests(self.locks)
        permission = own.broker_permission
        subscriptions = Subscriptions(
            self.topics,
            groups,
            consumers,
            self.filters,
            permission=permission,
            property_filter=own.enable_property_filter,
            filter_retry=own.filter_support_retry,
        )
        self.pulls = Pulls(
            store,
            self.reads,
            subscriptions,
            self.offsets,
            self.rates,
            clock,
            short_polling_ms=None if own.long_polling_enable else own.short_polling_time_mills,
            lite_pull=own.lite_pull_message_enable,
        )
        self.clients = ClientRequests(
            producers,
            consumers,
            self.filters,
            subscriptions,
            groups,
            self.topics,
            peers_clock,
            notify=own.notify_consumer_ids_changed_enable,
        )
        self.idempotence = Idempotence(store, table("idempotence"), own, clock)
        targets = Targets(self.topics, groups, self.locks, permission=permission)
        constants = {"MSG_REGION": own.region_id, "TRACE_ON": str(own.trace_on).lower()}
        delays = Delays(store.settings, clock)
        sends = Sends(
            store,
            targets,
            _additions(own, host, clock),
            self.rates,
            self.idempotence,
            delays,
            own,
            store_host=host,
            constants=constants,
        )
        rules = _transaction_rules(settings)
        self.ops = OpQueue(
            store, self.offsets, clock, store_host=host, size_max=own.transaction_op_msg_max_size
        )
        self.transaction_check = TransactionCheck(
            store, self.topics, producers, self.ops, rules, broker_name=own.broker_name
        )
        queries = Queries(store, self.reads, self.topics, groups, self.offsets)
        self.asking = asking = Asking()
        handlers = _handlers(
            self.pulls,
            self.clients,
            Relay(consumers, store, self.reads, asking, broker_name=own.broker_name),
            Replies(
                store,
                targets,
                producers,
                asking,
                self.rates,
                clock,
                store_host=host,
                constants=constants,
                stores=own.store_reply_message_enable,
            ),
            Recalls(
                store,
                self.topics,
                delays,
                sends.disk_waits,
                self.rates,
                clock,
                own,
                store_host=host,
            ),
            self.lock_requests,
            queries,
            Retries(
                store,
                self.reads,
                self.topics,
                groups,
                self.rates,
                delays,
                store_host=host,
                permission=permission,
            ),
            Transactions(store, self.reads, self.ops, self.rates, delays, rules),
            TopicAdmin(self.topics, store, self.reads, self.offsets, consumers, broker_name=own.broker_name),
            GroupAdmin(
                groups,
                consumers,
                producers,
                self.offsets,
                self.topics,
                store,
                self.reads,
                broker_name=own.broker_name,
            ),
            OffsetAdmin(
                groups,
                consumers,
                self.topics,
                self.offsets,
                self.pulls,
                store,
                self.reads,
                broker_name=own.broker_name,
            ),
            BrokerAdmin(settings, store, files, self.reads, self.rates, self.consumers, clock),
            StoreAdmin(self.topics, store, self.offsets),
            self.schedule,
        )
        self.bulk = Bulk(sends.bulk, self.pulls.bulk, queries.bulk)
        self.requests = Requests(
            sends.handle,
            handlers,
            asking.answered,
            [self.pulls.closed, self.reads.closed, self.clients.closed, asking.closed],
        )

    async def stop_saving(self) -> None:
        """Save what topics and groups have changed to."""
        await self.topics.stop()
        await self.groups.stop()


def _handlers(
    pulls: Pulls,
    clients: ClientRequests,
    relay: Relay,
    replies: Replies,
    recalls: Recalls,
    locks: LockRequests,
    queries: Queries,
    retries: Retries,
    transactions: Transactions,
    topics: TopicAdmin,
    groups: GroupAdmin,
    offsets: OffsetAdmin,
    broker: BrokerAdmin,
    store: StoreAdmin,
    schedule: Schedule,
) -> dict[int, Handler]:
    """Say who answers what; any other request is answered as not supported."""
    return {
        RequestCode.PULL_MESSAGE: pulls.handle,
        RequestCode.LITE_PULL_MESSAGE: pulls.handle,
        RequestCode.CONSUMER_SEND_MSG_BACK: retries.send_back,
        RequestCode.SEND_REPLY_MESSAGE: replies.handle,
        RequestCode.SEND_REPLY_MESSAGE_V2: replies.handle,
        RequestCode.RECALL_MESSAGE: recalls.handle,
        RequestCode.END_TRANSACTION: transactions.end,
        RequestCode.HEART_BEAT: clients.heartbeat,
        RequestCode.UNREGISTER_CLIENT: clients.unregister,
        RequestCode.CHECK_CLIENT_CONFIG: clients.check_config,
        RequestCode.GET_CONSUMER_LIST_BY_GROUP: clients.consumer_ids,
        RequestCode.LOCK_BATCH_MQ: locks.lock,
        RequestCode.UNLOCK_BATCH_MQ: locks.unlock,
        RequestCode.QUERY_CONSUMER_OFFSET: queries.committed_offset,
        RequestCode.UPDATE_CONSUMER_OFFSET: queries.commit_offset,
        RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: queries.offset_by_time,
        RequestCode.GET_MAX_OFFSET: queries.max_offset,
        RequestCode.GET_MIN_OFFSET: queries.min_offset,
        RequestCode.GET_EARLIEST_MSG_STORETIME: queries.earliest_store_time,
        RequestCode.VIEW_MESSAGE_BY_ID: queries.message_by_id,
        RequestCode.QUERY_MESSAGE: queries.messages_by_key,
        RequestCode.UPDATE_AND_CREATE_TOPIC: topics.create,
        RequestCode.UPDATE_AND_CREATE_TOPIC_LIST: topics.create_many,
        RequestCode.DELETE_TOPIC_IN_BROKER: topics.delete,
        RequestCode.GET_TOPIC_CONFIG: topics.config,
        RequestCode.GET_ALL_TOPIC_CONFIG: topics.all_configs,
        RequestCode.GET_TOPIC_STATS_INFO: topics.stats,
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO: topics.groups,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: topics.system_topics,
        RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: groups.create,
        RequestCode.DELETE_SUBSCRIPTIONGROUP: groups.delete,
        RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG: groups.config,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: groups.all_configs,
        RequestCode.GET_ALL_CONSUMER_OFFSET: groups.all_offsets,
        RequestCode.GET_ALL_DELAY_OFFSET: schedule.all_offsets,
        RequestCode.GET_CONSUMER_CONNECTION_LIST: groups.consumers,
        RequestCode.GET_PRODUCER_CONNECTION_LIST: groups.producers,
        RequestCode.GET_CONSUME_STATS: groups.progress,
        RequestCode.QUERY_TOPICS_BY_CONSUMER: groups.topics,
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: offsets.reset,
        RequestCode.CLONE_GROUP_OFFSET: offsets.clone,
        RequestCode.GET_CONSUMER_RUNNING_INFO: relay.running_info,
        RequestCode.CONSUME_MESSAGE_DIRECTLY: relay.consume_directly,
        RequestCode.DELETE_EXPIRED_COMMITLOG: store.delete_expired,
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE: store.clean_queues,
        RequestCode.CLEAN_UNUSED_TOPIC: store.clean_topics,
        RequestCode.GET_BROKER_CONFIG: broker.settings,
        RequestCode.UPDATE_BROKER_CONFIG: broker.change_settings,
        RequestCode.GET_BROKER_RUNTIME_INFO: broker.runtime_info,
    }


def _tables(files: FileLayer, root: Path) -> Callable[[str], JsonTable]:
    return lambda name: JsonTable(files, layout.config_path(root, name))


def _filters(
    table: JsonTable, settings: BrokerSettings, store: MessageStore, clock: Clock
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


def _transaction_rules(settings: Settings) -> Rules:
    own = settings.broker
    age_ms_max = settings.store.file_reserved_time * 3_600_000
    return Rules(own.transaction_time_out, own.transaction_check_max, age_ms_max)


def _additions(settings: BrokerSettings, host: bytes, clock: Clock) -> Additions:
    maker = UniqueIdMaker(host[:-PORT_SIZE], os.getpid(), java_hash(settings.broker_name))
    return Additions(
        region=settings.region_id,
        trace_on=settings.trace_on,
        cluster=settings.broker_cluster_name,
        make_unique_key=lambda: maker.make(clock.now_ms()),
    )
