"""The members of each consumer group, and the group's subscriptions.

Its methods handle events (a heartbeat, an unregistration, a lost connection) and return a ``Notify`` if the
members of a group must rebalance. (RocketMQ: ConsumerManager.java, ConsumerGroupInfo.java.)
"""

from collections.abc import Callable, Container, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple

from cometmq.broker.state.member_subscriptions import Differing, MemberSubscriptions, as_text
from cometmq.broker.state.producers import SILENCE_MS_MAX, ChannelT, ConnectedMember, silent
from cometmq.errors import FormatError
from cometmq.filter import tag
from cometmq.format.java import fastjson
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.wire import bodies

EMPTY_GROUP_MS_MAX: Final = 600_000
"""How long the subscriptions of a group without members are kept: its clients may be reconnecting."""

WARNING_PERIOD_MS: Final = 60_000
WARNINGS_MAX: Final = 20
"""Most warnings in a period of members that differ: clients decide how often subscriptions change."""

_log = get_logger(__name__)


class TopicSubscription(NamedTuple):
    """A group's subscription to a topic, with the tags codes that it selects; None for all."""

    data: bodies.SubscriptionData
    tags_codes: Container[int] | None


class Notify(NamedTuple, Generic[ChannelT]):
    """An instruction: notify each of ``channels`` that the members of ``group`` changed."""

    group: str
    channels: tuple[ChannelT, ...]


@dataclass(slots=True)
class ConsumerGroup(Generic[ChannelT]):
    """One consumer group, as its members' heartbeats describe it.

    Attributes:
        members: by connection.
        ids: their client ids as JSON, by connection: each member requests all of them.
        sorted_ids: their client ids, each once, sorted; None if they must be sorted again.
        subscriptions: by topic, from the latest heartbeat; pulls are filtered by these.
        member_subscriptions: the subscriptions of each member.
        differing: the topics in which they differed at the last comparison.
        empty_since_ms: when the last member left, on the monotonic clock; None while there are members.
    """

    consume_type: bodies.ConsumeType = bodies.ConsumeType.CONSUME_PASSIVELY
    message_model: bodies.MessageModel = bodies.MessageModel.CLUSTERING
    consume_from_where: bodies.ConsumeFromWhere = bodies.ConsumeFromWhere.LAST_OFFSET
    members: dict[ChannelT, ConnectedMember] = field(default_factory=dict)
    ids: dict[ChannelT, str] = field(default_factory=dict)
    sorted_ids: list[str] | None = None
    subscriptions: dict[str, TopicSubscription] = field(default_factory=dict)
    member_subscriptions: MemberSubscriptions[ChannelT] = field(default_factory=MemberSubscriptions)
    differing: Differing = frozenset()
    empty_since_ms: int | None = None

    @property
    def is_broadcasting(self) -> bool:
        """Whether each member gets all messages."""
        return self.message_model is bodies.MessageModel.BROADCASTING

    def join(self, channel: ChannelT, member: ConnectedMember) -> bool:
        """Register or update a member; return whether its connection is new."""
        known = self.members.get(channel)
        if known is None or known.client_id != member.client_id:
            self.ids[channel] = fastjson.dumps(member.client_id)
            self.sorted_ids = None
        self.members[channel] = member
        return known is None

    def leave(self, channel: ChannelT) -> bool:
        """Remove a member; return whether it was one."""
        self.ids.pop(channel, None)
        self.sorted_ids = None
        return self.members.pop(channel, None) is not None

    def client_ids(self) -> list[str]:
        """Return the client ids of the members, each once, sorted, in a list that never changes."""
        if self.sorted_ids is None:
            self.sorted_ids = sorted({member.client_id for member in self.members.values()})
        return self.sorted_ids

    def subscribe(self, subscriptions: list[bodies.SubscriptionData]) -> bool:
        """Set the group's subscriptions to those of a heartbeat; return whether their topics changed."""
        topics = {data.topic for data in subscriptions}
        changed = topics != self.subscriptions.keys()
        for gone in self.subscriptions.keys() - topics:
            del self.subscriptions[gone]
        for data in subscriptions:
            self.subscribe_to(data)
        return changed

    def subscribe_to(self, data: bodies.SubscriptionData) -> bool:
        """Set the subscription to a topic unless one as new is known; return whether it was set."""
        known = self.subscriptions.get(data.topic)
        if known is not None and data.version <= known.data.version:
            return False
        self.subscriptions[data.topic] = subscription_of(data)
        return True


class Consumers(Generic[ChannelT]):
    """All consumer groups with heartbeats; ``ChannelT`` identifies a connection.

    Args:
        on_empty: called with the name of a group whose last member is gone.

    Attributes:
        on_change: called when a group's subscriptions or message model have changed.
        on_remove: called with the name of a group that has been without members for too long.
    """

    def __init__(self, clock: Clock, on_empty: Callable[[str], None] = lambda _: None) -> None:
        self._clock = clock
        self._on_empty = on_empty
        self.on_change: list[Callable[[], object]] = []
        self.on_remove: list[Callable[[str], object]] = []
        self._groups: dict[str, ConsumerGroup[ChannelT]] = {}
        self._by_topic: dict[str, dict[str, None]] = {}  # the names of groups that subscribe to it
        self._warnings_left = WARNINGS_MAX
        self._warnings_since_ms = clock.monotonic_ms()

    def heartbeat(
        self, channel: ChannelT, data: bodies.ConsumerData, member: ConnectedMember
    ) -> Notify[ChannelT] | None:
        """Register a member of a group, and its subscriptions."""
        group = self._groups.setdefault(data.group, ConsumerGroup())
        before = group.message_model, group.subscriptions.copy()
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        group.empty_since_ms = None
        is_new = group.join(channel, member)
        changed = group.subscribe(data.subscriptions)
        if changed:
            self._index(data.group, before[1].keys(), group.subscriptions.keys())
        if group.member_subscriptions.update(channel, member.client_id, data.subscriptions):
            self._compare_members(data.group, group)
        if before != (group.message_model, group.subscriptions):
            self._call_on_change()
        return self._notify(data.group) if is_new or changed else None

    def update(self, channel: ChannelT, name: str, data: bodies.SubscriptionData) -> bool:
        """Replace a subscription of a group by a member's newer one; return whether it is newer."""
        group = self._groups.get(name)
        if group is None or channel not in group.members or data.topic not in group.subscriptions:
            return False
        if is_newer := group.subscribe_to(data):
            self._call_on_change()
        return is_newer

    def unregister(self, channel: ChannelT, name: str) -> Notify[ChannelT] | None:
        """Remove a client from a group."""
        group = self._groups.get(name)
        if group is None or not group.leave(channel):
            return None
        group.member_subscriptions.remove(channel)
        self._compare_members(name, group)
        if not group.members:
            group.empty_since_ms = self._clock.monotonic_ms()
            self._on_empty(name)
        return self._notify(name)

    def closed(self, channel: ChannelT) -> list[Notify[ChannelT]]:
        """Remove a closed connection from all groups."""
        names = [name for name, group in self._groups.items() if channel in group.members]
        return [notify for name in names if (notify := self.unregister(channel, name))]

    def find(self, name: str) -> ConsumerGroup[ChannelT] | None:
        """Return a group, or None if none of its members has sent a heartbeat."""
        return self._groups.get(name)

    def groups(self) -> dict[str, ConsumerGroup[ChannelT]]:
        """Return the groups by name, in a new dictionary."""
        return dict(self._groups)

    def may_consume(self, name: str, topic: str) -> bool:
        """Check whether a group may consume a topic; not while its members subscribe to others only."""
        group = self._groups.get(name)
        if group is None or not group.members or not group.subscriptions:
            return True
        return topic in group.subscriptions

    def groups_of(self, topic: str) -> set[str]:
        """Return the names of the groups with members that subscribe to ``topic``."""
        return {name for name in self._by_topic.get(topic, ()) if self._groups[name].members}

    def differences(self) -> Iterator[tuple[str, list[bodies.SubscriptionDifference]]]:
        """Iterate over the groups whose members subscribe differently, with the differences."""
        return (
            (name, group.member_subscriptions.differences())
            for name, group in self._groups.items()
            if group.differing
        )

    def silent(self, ms_max: int = SILENCE_MS_MAX) -> set[ChannelT]:
        """Return the connections whose client has sent no heartbeat for too long: they must be closed."""
        oldest_ms = self._clock.monotonic_ms() - ms_max
        return silent((group.members for group in self._groups.values()), oldest_ms)

    def remove_empty(self, ms_max: int = EMPTY_GROUP_MS_MAX) -> None:
        """Remove the groups that have been without members for too long."""
        oldest = self._clock.monotonic_ms() - ms_max
        for name, group in list(self._groups.items()):
            if group.empty_since_ms is not None and group.empty_since_ms < oldest:
                del self._groups[name]
                self._index(name, group.subscriptions.keys(), set())
                self._call_on_change()
                for action in self.on_remove:
                    action(name)

    def _index(self, name: str, before: AbstractSet[str], now: AbstractSet[str]) -> None:
        """Update the index by topic for a group that subscribes to other topics than before."""
        for topic in before - now:
            groups = self._by_topic[topic]
            del groups[name]
            if not groups:
                del self._by_topic[topic]
        for topic in now - before:
            self._by_topic.setdefault(topic, {})[name] = None

    def _compare_members(self, name: str, group: ConsumerGroup[ChannelT]) -> None:
        """Compare the members' subscriptions; log whether they differ if that has changed."""
        before, group.differing = group.differing, group.member_subscriptions.differing()
        if group.differing == before:
            return
        if not group.differing:
            if group.members:
                _log.info("group %.130s: all members subscribe to the same again", name)
        elif self._may_warn():
            _log.warning(
                "group %.130s: members subscribe differently, so each misses messages that it wants: %s; "
                "let all members of a group subscribe to the same, or use several groups",
                name,
                ". ".join(map(as_text, group.member_subscriptions.differences())),
            )

    def _may_warn(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._warnings_since_ms >= WARNING_PERIOD_MS:
            self._warnings_since_ms, self._warnings_left = now_ms, WARNINGS_MAX
        self._warnings_left -= 1
        return self._warnings_left >= 0

    def _call_on_change(self) -> None:
        for action in self.on_change:
            action()

    def _notify(self, name: str) -> Notify[ChannelT] | None:
        group = self._groups[name]
        if group.is_broadcasting or not group.members:
            return None
        return Notify(name, tuple(group.members))


def subscription_of(data: bodies.SubscriptionData) -> TopicSubscription:
    """Return a subscription with the tags codes that it selects."""
    try:
        return TopicSubscription(data, tag.codes(tag.parse(data.expression)))
    except FormatError:
        return TopicSubscription(data, frozenset(data.codes))
