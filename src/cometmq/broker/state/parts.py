"""The construction of a broker's state: its tables, loaded, and what it knows of its clients."""

from cometmq.broker.basis import Basis
from cometmq.broker.settings_by_subject import FilterSettings
from cometmq.broker.state.consumer_filters import ConsumerFilters
from cometmq.broker.state.consumers import Consumers
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.idempotence import Idempotence
from cometmq.broker.state.in_flight import InFlight
from cometmq.broker.state.locks import QueueLocks
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.pop.consume_orders import ConsumeOrders
from cometmq.broker.state.pop.message_modes import RequestModes
from cometmq.broker.state.pop.retry_topics import PopRetryTopics
from cometmq.broker.state.producers import Producers
from cometmq.broker.state.rates import Rates
from cometmq.broker.state.subscriptions import Subscriptions
from cometmq.broker.state.topics import Topics, boot_topics
from cometmq.filter import sql92
from cometmq.filter.bloom import BloomFilter
from cometmq.net.server import Session


class StateParts:
    """What a broker knows; each part gets the few of it that it needs.

    The keys of ``idempotence`` are not loaded yet, as that takes long.

    Raises StoreDamaged: a table holds content of another type.
    """

    def __init__(self, basis: Basis) -> None:
        own, store, clock, table = basis.own, basis.store, basis.clock, basis.table
        creates = own.topics
        self.topics = Topics(
            table("topics"), clock, boot_topics(own), auto_create=creates.auto_create_topic_enable
        )
        self.groups = Groups(
            table("subscriptionGroup"), clock, auto_create=creates.auto_create_subscription_group
        )
        self.offsets = Offsets(table("consumerOffset"), clock)
        self.filters = _filters(basis, own.filters)
        self.orders = ConsumeOrders(table("consumerOrderInfo"), clock)
        self.modes = RequestModes(table("messageRequestMode"))
        self.locks = QueueLocks(table("queueLocks"), basis.peers_clock)
        self.idempotence = Idempotence(store, table("idempotence"), own.idempotence, clock)
        self.rates = Rates(clock)
        self.in_flight = InFlight(clock.now_ms())
        self.producers = Producers[Session](basis.peers_clock)
        self.consumers = Consumers[Session](basis.peers_clock, on_empty=self.filters.unregister)
        self.retry_topics = PopRetryTopics(self.topics, self.groups, self.offsets)
        self.subscriptions = Subscriptions(
            self.topics,
            self.groups,
            self.consumers,
            self.filters,
            permission=own.broker_permission,
            property_filter=own.filters.enable_property_filter,
            filter_retry=own.filters.filter_support_retry,
        )
        self.topics.load()
        self.groups.load()
        self.offsets.load(store.max_queue_offset, store.wait_flushed)
        self.filters.load(trusted=store.recovered.clean)
        self.orders.load(self._has_queue)
        self.modes.load()
        self.locks.load()
        self.offsets.on_delete += [self.orders.delete, self.in_flight.delete]
        self.consumers.on_remove.append(self.offsets.forget_begun)
        self.groups.on_delete(self.modes.delete_groups)

    def _has_queue(self, group: str, topic: str, queue_id: int) -> bool:
        config = self.topics.find(topic)
        is_there = config is not None and queue_id < config.read_queue_count
        return is_there and self.groups.find(group) is not None


def _filters(basis: Basis, settings: FilterSettings) -> ConsumerFilters:
    if settings.enable_property_filter:
        sql92.prepare()
    bloom = BloomFilter(settings.max_error_rate_of_bloom_filter, settings.expect_consumer_num_use_filter)
    filters = ConsumerFilters(
        basis.table("consumerFilter"),
        basis.clock,
        bloom,
        keep_ms=settings.filter_data_clean_time_span,
        stored_time=lambda: basis.store.dispatched_time,
    )
    if settings.enable_calc_filter_bit_map:
        basis.store.calculate_bitmaps(filters.bitmap)
    return filters
