"""Who consumes: the members of each consumer group, and what the group subscribes to.

Events come in (a heartbeat, a goodbye, a lost connection); what follows from them goes out as a
``Notify``: the connections that must be told that the members of a group changed, so that they divide
the queues anew. (RocketMQ: ConsumerManager.java, ConsumerGroupInfo.java.)
"""

import logging
from collections.abc import Callable, Container, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple

from cometmq.broker.state.member_subscriptions import Differing, MemberSubscriptions, as_text
from cometmq.broker.state.producers import SILENCE_MS_MAX, ChannelT, ProducerMember
from cometmq.errors import FormatError
from cometmq.filter import tag
from cometmq.format.java import fastjson
from cometmq.io.clock import Clock
from cometmq.wire.bodies import (
    ConsumeFromWhere,
    ConsumerData,
    ConsumeType,
    MessageModel,
    SubscriptionData,
    SubscriptionDifference,
)

EMPTY_GROUP_MS_MAX: Final = 600_000
"""The subscriptions of a group without members are kept for so long: its clients may be reconnecting."""

WARNING_PERIOD_MS: Final = 60_000
WARNINGS_MAX: Final = 20
"""So many warnings of members that differ are logged in a period: a client decides how often that changes."""

_log = logging.getLogger(__name__)


class TopicSubscription(NamedTuple):
    """What a group wants of a topic; ``tags_codes`` None stands for any."""

    data: SubscriptionData
    tags_codes: Container[int] | None


class Notify(NamedTuple, Generic[ChannelT]):
    """An instruction: tell each of ``channels`` that the members of ``group`` changed."""

    group: str
    channels: tuple[ChannelT, ...]


@dataclass(slots=True)
class ConsumerGroup(Generic[ChannelT]):
    """What its members' heartbeats say about one group.

    Attributes:
        members: by connection.
        ids: their client ids by connection, as they stand in JSON: very many are asked for by each of them.
        subscriptions: by topic, as the latest heartbeat had them.
        of_members: what each of them subscribes to; pulls go by ``subscriptions``.
        differing: where they differed when that was last looked at.
        empty_since_ms: when the last member left, on the monotonic clock; None while there are members.
    """

    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    members: dict[ChannelT, ProducerMember] = field(default_factory=dict)
    ids: dict[ChannelT, str] = field(default_factory=dict)
    subscriptions: dict[str, TopicSubscription] = field(default_factory=dict)
    of_members: MemberSubscriptions[ChannelT] = field(default_factory=MemberSubscriptions)
    differing: Differing = frozenset()
    empty_since_ms: int | None = None

    @property
    def is_broadcasting(self) -> bool:
        """Whether each member gets all messages."""
        return self.message_model is MessageModel.BROADCASTING

    def join(self, channel: ChannelT, member: ProducerMember) -> bool:
        """Register a member, or what its heartbeat says now; return whether its connection is new."""
        known = self.members.get(channel)
        if known is None or known.client_id != member.client_id:
            self.ids[channel] = fastjson.dumps(member.client_id)
        self.members[channel] = member
        return known is None

    def leave(self, channel: ChannelT) -> bool:
        """Remove a member; return whether it was one."""
        self.ids.pop(channel, None)
        return self.members.pop(channel, None) is not None

    def subscribe(self, wanted: list[SubscriptionData]) -> bool:
        """Take over a heartbeat's subscriptions; True if a topic came or went."""
        topics = {data.topic for data in wanted}
        changed = topics != self.subscriptions.keys()
        for gone in self.subscriptions.keys() - topics:
            del self.subscriptions[gone]
        for data in wanted:
            known = self.subscriptions.get(data.topic)
            if known is None or data.version > known.data.version:
                self.subscriptions[data.topic] = subscription_of(data)
        return changed


class Consumers(Generic[ChannelT]):
    """All consumer groups; ``ChannelT`` is what stands for a connection.

    Args:
        on_empty: called with the name of a group whose last member is gone.

    Attributes:
        on_change: called when what a group wants, or how its members share it, has changed.
    """

    def __init__(self, clock: Clock, on_empty: Callable[[str], None] = lambda _: None) -> None:
        self._clock = clock
        self._on_empty = on_empty
        self.on_change: list[Callable[[], object]] = []
        self._groups: dict[str, ConsumerGroup[ChannelT]] = {}
        self._by_topic: dict[str, dict[str, None]] = {}  # the names of groups that subscribe to it
        self._warnings_left = WARNINGS_MAX
        self._warnings_since_ms = clock.monotonic_ms()

    def heartbeat(
        self, channel: ChannelT, data: ConsumerData, member: ProducerMember
    ) -> Notify[ChannelT] | None:
        """Note that a client is in a group and what it subscribes to."""
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
        if group.of_members.update(channel, member.client_id, data.subscriptions):
            self._compare_members(data.group, group)
        if before != (group.message_model, group.subscriptions):
            self._tell_change()
        return self._notify(data.group) if is_new or changed else None

    def unregister(self, channel: ChannelT, name: str) -> Notify[ChannelT] | None:
        """Note that a client left a group."""
        group = self._groups.get(name)
        if group is None or not group.leave(channel):
            return None
        group.of_members.remove(channel)
        self._compare_members(name, group)
        if not group.members:
            group.empty_since_ms = self._clock.monotonic_ms()
            self._on_empty(name)
        return self._notify(name)

    def closed(self, channel: ChannelT) -> list[Notify[ChannelT]]:
        """Note that a connection is gone."""
        names = [name for name, group in self._groups.items() if channel in group.members]
        return [notify for name in names if (notify := self.unregister(channel, name))]

    def find(self, name: str) -> ConsumerGroup[ChannelT] | None:
        """Give what is known of a group, or None if it never sent a heartbeat."""
        return self._groups.get(name)

    def concerns(self, name: str, topic: str) -> bool:
        """Tell whether a topic matters for a group: not if its members subscribe to others only."""
        group = self._groups.get(name)
        if group is None or not group.members or not group.subscriptions:
            return True
        return topic in group.subscriptions

    def groups_of(self, topic: str) -> set[str]:
        """Give the groups with members that subscribe to ``topic``."""
        return {name for name in self._by_topic.get(topic, ()) if self._groups[name].members}

    def differences(self) -> Iterator[tuple[str, list[SubscriptionDifference]]]:
        """Go through the groups whose members subscribe differently."""
        return (
            (name, group.of_members.differences()) for name, group in self._groups.items() if group.differing
        )

    def silent(self) -> set[ChannelT]:
        """Give the connections whose client has been silent for too long: they must be closed."""
        oldest = self._clock.monotonic_ms() - SILENCE_MS_MAX
        return {
            channel
            for group in self._groups.values()
            for channel, member in group.members.items()
            if member.heard_ms < oldest
        }

    def forget_empty(self) -> None:
        """Forget the groups that have been without members for long."""
        oldest = self._clock.monotonic_ms() - EMPTY_GROUP_MS_MAX
        for name, group in list(self._groups.items()):
            if group.empty_since_ms is not None and group.empty_since_ms < oldest:
                del self._groups[name]
                self._index(name, group.subscriptions.keys(), set())
                self._tell_change()

    def _index(self, name: str, before: AbstractSet[str], now: AbstractSet[str]) -> None:
        """Note that a group subscribes to other topics than before."""
        for topic in before - now:
            groups = self._by_topic[topic]
            del groups[name]
            if not groups:
                del self._by_topic[topic]
        for topic in now - before:
            self._by_topic.setdefault(topic, {})[name] = None

    def _compare_members(self, name: str, group: ConsumerGroup[ChannelT]) -> None:
        """Compare what members subscribe to; log what has changed about that."""
        before, group.differing = group.differing, group.of_members.differing()
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
                ". ".join(map(as_text, group.of_members.differences())),
            )

    def _may_warn(self) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._warnings_since_ms >= WARNING_PERIOD_MS:
            self._warnings_since_ms, self._warnings_left = now_ms, WARNINGS_MAX
        self._warnings_left -= 1
        return self._warnings_left >= 0

    def _tell_change(self) -> None:
        for notice in self.on_change:
            notice()

    def _notify(self, name: str) -> Notify[ChannelT] | None:
        group = self._groups[name]
        if group.is_broadcasting or not group.members:
            return None
        return Notify(name, tuple(group.members))


def subscription_of(data: SubscriptionData) -> TopicSubscription:
    """Give a subscription with the tags codes to look for."""
    try:
        return TopicSubscription(data, tag.codes(tag.parse(data.expression)))
    except FormatError:
        return TopicSubscription(data, frozenset(data.codes))
