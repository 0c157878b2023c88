"""The construction of the parts that answer operators."""

from collections.abc import Callable
from typing import NamedTuple

from cometmq.broker.admin.beginnings import Beginnings
from cometmq.broker.admin.broker import BrokerAdmin
from cometmq.broker.admin.broker_set import SetRequests
from cometmq.broker.admin.groups import GroupAdmin
from cometmq.broker.admin.live_settings import LiveSettings
from cometmq.broker.admin.offsets import OffsetAdmin
from cometmq.broker.admin.progress import GroupTables, OwnNames, ProgressAdmin
from cometmq.broker.admin.statistics import Statistics
from cometmq.broker.admin.store import StoreAdmin
from cometmq.broker.admin.timer import TimerAdmin
from cometmq.broker.admin.topics import TopicRequests
from cometmq.broker.basis import Basis
from cometmq.broker.handlers import Part
from cometmq.broker.state.parts import StateParts
from cometmq.broker.timed.timed_messages import TimedMessages
from cometmq.net.address import address_text
from cometmq.replication.controller.membership import SetMembership


class AdminHooks(NamedTuple):
    """What operators' requests have other parts do.

    Attributes:
        reset_pulls: called with group, topic and queue id whose offset was reset: pulls go on from there.
        reset_pops: the same for pops that wait.
        warnings: returns what is wrong with the broker, by name.
    """

    reset_pulls: Callable[[str, str, int], None]
    reset_pops: Callable[[str, str, int], None]
    warnings: Callable[[], dict[str, str]]


class AdminParts:
    """What answers operators.

    Attributes:
        parts: all that have handlers.
    """

    def __init__(
        self,
        basis: Basis,
        state: StateParts,
        timed_messages: TimedMessages,
        settings: LiveSettings,
        membership: SetMembership | None,
        hooks: AdminHooks,
    ) -> None:
        own, store, clock, reads, name = basis.own, basis.store, basis.clock, basis.reads, basis.broker_name
        topics, groups, offsets, rates = state.topics, state.groups, state.offsets, state.rates
        consumers, in_flight, identity = state.consumers, state.in_flight, own.identity
        self.beginnings = Beginnings(consumers, offsets, store.min_queue_offset)
        tables = GroupTables(groups, consumers, offsets, self.beginnings, in_flight)
        self.statistics = statistics = Statistics(
            store, offsets, consumers, rates, clock, cluster=identity.broker_cluster_name
        )
        retry_topics = state.retry_topics
        deleted = retry_topics if own.pop.clear_retry_topic_when_delete_topic else None
        names = OwnNames(name, address_text(*basis.address))
        resets = hooks.reset_pulls, in_flight.clear, hooks.reset_pops
        self.parts: tuple[Part, ...] = (
            TopicRequests(topics, store, reads, tables, statistics, deleted, own.bodies, broker_name=name),
            GroupAdmin(groups, consumers, state.producers, offsets, reads, own.bodies, clock, retry_topics),
            ProgressAdmin(tables, topics, store, reads, statistics, names),
            TimerAdmin(timed_messages, topics, reads, clock),
            OffsetAdmin(tables, topics, resets, store, reads, broker_name=name),
            BrokerAdmin(
                settings, store, basis.files, reads, rates, consumers, clock, warnings=hooks.warnings
            ),
            StoreAdmin(topics, store, offsets, state.modes, reads, hooks.reset_pulls),
            SetRequests(membership, store, identity),
            statistics,
        )
