"""Who consumes: the members of each consumer group, and what the group subscribes to.

Events come in (a heartbeat, a goodbye, a lost connection); what follows from them goes out as a
``Notify``: the connections that must be told that the members of a group changed, so that they divide
the queues anew. (RocketMQ: ConsumerManager.java, ConsumerGroupInfo.java.)
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Final, Generic, NamedTuple

from cometmq.broker.producers import SILENCE_MS_MAX, ChannelT, Member
from cometmq.errors import FormatError
from cometmq.filter import tag
from cometmq.io.clock import Clock
from cometmq.wire.bodies import ConsumeFromWhere, ConsumerData, ConsumeType, MessageModel, SubscriptionData

EMPTY_GROUP_MS_MAX: Final = 600_000
"""The subscriptions of a group without members are kept for so long: its clients may be reconnecting."""


class Subscription(NamedTuple):
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
        subscriptions: by topic, as the latest heartbeat had them.
        empty_since_ms: when the last member left, on the monotonic clock; None while there are members.
    """

    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    message_model: MessageModel = MessageModel.CLUSTERING
    consume_from_where: ConsumeFromWhere = ConsumeFromWhere.LAST_OFFSET
    members: dict[ChannelT, Member] = field(default_factory=dict)
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    empty_since_ms: int | None = None

    @property
    def is_broadcasting(self) -> bool:
        """Whether each member gets all messages."""
        return self.message_model is MessageModel.BROADCASTING

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

    def heartbeat(self, channel: ChannelT, data: ConsumerData, member: Member) -> Notify[ChannelT] | None:
        """Note that a client is in a group and what it subscribes to."""
        group = self._groups.setdefault(data.group, ConsumerGroup())
        before = group.message_model, group.subscriptions.copy()
        group.consume_type = data.consume_type
        group.message_model = data.message_model
        group.consume_from_where = data.consume_from_where
        group.empty_since_ms = None
        is_new = channel not in group.members
        group.members[channel] = member
        changed = group.subscribe(data.subscriptions)
        if before != (group.message_model, group.subscriptions):
            self._tell_change()
        return self._notify(data.group) if is_new or changed else None

    def unregister(self, channel: ChannelT, name: str) -> Notify[ChannelT] | None:
        """Note that a client left a group."""
        group = self._groups.get(name)
        if group is None or group.members.pop(channel, None) is None:
            return None
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
        return {
            name for name, group in self._groups.items() if group.members and topic in group.subscriptions
        }

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
                self._tell_change()

    def _tell_change(self) -> None:
        for notice in self.on_change:
            notice()

    def _notify(self, name: str) -> Notify[ChannelT] | None:
        group = self._groups[name]
        if group.is_broadcasting or not group.members:
            return None
        return Notify(name, tuple(group.members))


def subscription_of(data: SubscriptionData) -> Subscription:
    """Give a subscription with the tags codes to look for."""
    try:
        return Subscription(data, tag.codes(tag.parse(data.expression)))
    except FormatError:
        return Subscription(data, frozenset(data.codes))
