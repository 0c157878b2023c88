"""The committed offsets of consumer groups, their lag, and the reset of offsets.

The broker executes a reset (INVOKE_BROKER_TO_RESET_OFFSET), with or without members: running members continue
at the new offset by themselves. A broker before 5.0 resets only if there are members; without any,
the offset is committed instead.
"""

import asyncio
from dataclasses import dataclass
from typing import Final, NamedTuple

from cometmq.admin import groups
from cometmq.admin.cluster import ClusterAdmin, missing_group
from cometmq.admin.times import is_duration, parse_duration, parse_range
from cometmq.arguments import FLAG, TEXT, check, instance_of, or_none
from cometmq.errors import CometMQError, NotFound, RemoteError, SettingsError
from cometmq.format.layout import valid_group
from cometmq.message import MessageQueue
from cometmq.wire import headers as h
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import MessageModel
from cometmq.wire.bodies.stats import NOT_KNOWN, ConsumeOffset, ConsumeStats, QueueOffsets
from cometmq.wire.bodies.topic import TopicNames
from cometmq.wire.codes import RequestCode, ResponseCode, Version
from cometmq.wire.frame import Command

END: Final = -1
"""As the time of a reset: the end of the queue."""


class QueueProgress(NamedTuple):
    """The progress of a group in a queue.

    Attributes:
        max_offset: the queue offset after the queue's last message.
        committed: all messages before this queue offset are handled; 0 if nothing was ever committed.
        pulled: all messages before this queue offset have been delivered to the group's members.
        last_time: store time of the last handled message, ms since the epoch; 0 if there is none.
        popped: messages before ``committed`` that pops have handed out, and that are neither acknowledged nor
            returned: a group that pops commits when messages are handed out. 0 at a Java broker.
        has_committed: whether anything was ever committed; true at a Java broker, which does not report it.
        begin: where the group begins if nothing was committed: its lag is counted from there. None if that is
            not known: then it has no lag.
    """

    topic: str
    broker_name: str
    queue_id: int
    max_offset: int
    committed: int
    pulled: int
    last_time: int
    popped: int = 0
    has_committed: bool = True
    begin: int | None = None

    @property
    def is_known(self) -> bool:
        """Whether it is known from where the group's lag counts."""
        return self.has_committed or self.begin is not None

    @property
    def position(self) -> int:
        """The queue offset from which the group's lag counts: committed, or where it begins; else the end."""
        if self.has_committed:
            return self.committed
        return self.max_offset if self.begin is None else min(self.begin, self.max_offset)

    @property
    def lag(self) -> int:
        """Number of messages that the group has not handled; 0 if it is ahead."""
        return max(self.max_offset - self.position, 0) + self.popped

    @property
    def ahead(self) -> int:
        """How far the group has committed beyond the queue's end: it will miss the messages up to there."""
        return max(self.position - self.max_offset, 0)

    @property
    def in_flight(self) -> int:
        """Number of delivered messages that are not handled yet."""
        return max(self.pulled - self.position, 0) + self.popped

    @property
    def ready(self) -> int:
        """Number of messages that wait to be delivered for the first time."""
        return max(self.max_offset - max(self.pulled, self.position), 0)


class GroupLag(NamedTuple):
    """The lag of a whole group; ``members`` is 0 if it is offline.

    Attributes:
        ahead: how far it has committed beyond the ends of queues, which does not reduce ``lag``.
        has_committed: whether it has committed an offset of any queue.
        is_broadcasting: whether each member gets all messages, and keeps its own offsets: it has no lag.
    """

    group: str
    members: int
    lag: int
    in_flight: int
    ready: int
    ahead: int
    deliveries_per_s: float
    has_committed: bool = True
    is_broadcasting: bool = False


class GroupProgress(NamedTuple):
    """The progress of a group in all its queues, and its rate in messages per second, by the brokers.

    Queues in which it has committed nothing are not there if it is not known where it begins, unless a topic
    was asked for.
    """

    group: str
    queues: list[QueueProgress]
    deliveries_per_s: float

    @property
    def has_committed(self) -> bool:
        """Whether the group has committed an offset of any of the queues."""
        return any(queue.has_committed for queue in self.queues)


class OffsetChange(NamedTuple):
    """The change of one queue's offset by a reset; ``before`` is None if nothing was committed."""

    queue: MessageQueue
    before: int | None
    after: int


@dataclass(frozen=True)
class ResetTarget:
    """The position to reset a group to: a queue offset, or the first message stored from a time (ms) on.

    Without either it is the first message; ``ResetTarget(time=END)`` is the end of the queue.
    """

    time: int | None = None
    offset: int | None = None


QUEUE_DIGITS_MAX: Final = 9
"""Most digits of a queue's id."""
TO: Final = "earliest, latest, a time as ISO 8601 or ms since the epoch, or a time ago: 30m, 2h, 1d"
"""What ``parse_target`` understands."""


def parse_target(text: str, now_ms: int, *, option: str = "--to") -> ResetTarget:
    """Parse the position to reset to: see ``TO``. Raises SettingsError."""
    if text == "earliest":
        return ResetTarget()
    if text == "latest":
        return ResetTarget(time=END)
    if is_duration(text):
        return ResetTarget(time=now_ms - parse_duration(option, text))
    return ResetTarget(time=parse_range(text, option=option).begin)


def parse_queue(text: str, *, option: str = "--queue") -> tuple[str, int]:
    """Parse the broker name and the queue id of ``BROKER:ID``. Raises SettingsError."""
    broker_name, colon, queue_id = text.rpartition(":")
    if not colon or not queue_id.isdecimal() or len(queue_id) > QUEUE_DIGITS_MAX:
        raise SettingsError(
            f"{option} {text[:300]!r}: write it as BROKER:ID, as cometmq topic stats shows them"
        )
    return broker_name, int(queue_id)


class NotMoved(CometMQError):
    """A broker reset a group to another offset than requested, since it can only reset to a time."""


class GroupAtWork(CometMQError):
    """A group has running members, which would undo the requested change."""


async def lag(cluster: ClusterAdmin, group: str, topic: str | None = None) -> GroupProgress:
    """Return the progress of a group in all its topics, or in one.

    Raises NotFound if no broker has the group, or it does not consume the topic; RemoteError, NetworkError.
    """
    found = await progress_of(cluster, group, topic)
    if not found.queues:
        if group not in (known := await groups.names(cluster)):
            raise missing_group(group, known)
        if topic is not None:
            await cluster.route(topic)  # raises NoRoute if there is no such topic
            raise NotFound(f"group {group} does not consume topic {topic}: cometmq offset show {group}")
    return found


async def progress_of(cluster: ClusterAdmin, group: str, topic: str | None = None) -> GroupProgress:
    """Return the progress of a group; without queues if it has consumed nothing or does not exist."""
    check(TEXT, group=group)
    check(or_none(TEXT), topic=topic)
    stats = await cluster.ask_masters(
        RequestCode.GET_CONSUME_STATS, h.GetConsumeStatsHeader(group, topic), ConsumeStats
    )
    queues = [_progress(queue, at) for one in stats.values() for queue, at in one.offsets.items()]
    return GroupProgress(group, sorted(queues), sum(one.consume_tps for one in stats.values()))


def _progress(queue: MessageQueue, at: ConsumeOffset) -> QueueProgress:
    has_committed = at.begin is None
    return QueueProgress(
        *queue,
        max_offset=at.broker_offset,
        committed=at.consumer_offset if has_committed else 0,
        pulled=at.pull_offset,
        last_time=at.last_time,
        popped=at.popped or 0,
        has_committed=has_committed,
        begin=None if at.begin == NOT_KNOWN else at.begin,
    )


async def lags(cluster: ClusterAdmin) -> list[GroupLag]:
    """Return the lag of each group that has members or has consumed something."""

    async def one(group: str) -> GroupLag:
        stands, connections = await asyncio.gather(
            progress_of(cluster, group), groups.connected(cluster, group)
        )
        return GroupLag(
            group,
            len(groups.members(connections)),
            sum(queue.lag for queue in stands.queues),
            sum(queue.in_flight for queue in stands.queues),
            sum(queue.ready for queue in stands.queues),
            sum(queue.ahead for queue in stands.queues),
            stands.deliveries_per_s,
            stands.has_committed,
            any(one.message_model is MessageModel.BROADCASTING for one in connections.values()),
        )

    return list(await asyncio.gather(*map(one, await groups.names(cluster))))


async def reset(
    cluster: ClusterAdmin,
    group: str,
    topic: str,
    target: ResetTarget,
    *,
    queue: tuple[str, int] | None = None,
    dry_run: bool = False,
) -> list[OffsetChange]:
    """Reset a group's offsets in a topic.

    Args:
        queue: broker name and queue id of the only queue to reset.
        dry_run: only return the changes, without making them.

    Raises:
        NotFound: there is no such topic (NoRoute), group or queue.
        SettingsError: a queue does not have the offset.
        NotMoved: a broker reset to another offset than requested.
        RemoteError: a broker refuses.
        NetworkError: a server does not answer.
    """
    check(TEXT, group=group, topic=topic)
    check(instance_of(ResetTarget), target=target)
    check(or_none(instance_of(tuple)), queue=queue)
    check(FLAG, dry_run=dry_run)
    known = await groups.names(cluster)
    if group not in known:
        raise missing_group(group, known)
    route = await cluster.route(topic)
    queues = [
        one for one in route.subscribe_queues() if queue is None or (one.broker_name, one.queue_id) == queue
    ]
    if not queues:
        raise SettingsError(f"topic {topic} has no queue {queue}: cometmq topic route {topic} shows them")
    work = _Reset(cluster, group, {one: await cluster.routes.master(one) for one in queues})
    moves = [await work.plan(one, target) for one in queues]
    if not dry_run:
        for move in moves:
            await work.move(move, target)
    return moves


async def clone(cluster: ClusterAdmin, source: str, target: str, topic: str | None = None) -> list[str]:
    """Copy the offsets of one group to another, in one topic or all topics; return the topics.

    Raises:
        NotFound: no broker has the source, or it has consumed nothing.
        GroupAtWork: the target has members, which would overwrite the offsets.
        IllegalName: the target's name is illegal.
        RemoteError, NetworkError: as requests raise them.
    """
    check(TEXT, source=source)
    check(or_none(TEXT), topic=topic)
    valid_group(target)
    if found := groups.members(await groups.connected(cluster, target)):
        raise GroupAtWork(f"group {target} has {len(found)} running members: stop them first")
    masters = await cluster.masters()
    of_source = await cluster.ask_masters(
        RequestCode.QUERY_TOPICS_BY_CONSUMER, h.GroupHeader(source), TopicNames
    )
    cloned: set[str] = set()
    for name, known in of_source.items():
        for one in sorted(known.topics):
            if (topic is None and not one.startswith("%")) or one == topic:
                header = h.CloneOffsetHeader(source, target, one, offline=True)
                await cluster.ask(masters[name], RequestCode.CLONE_GROUP_OFFSET, header)
                cloned.add(one)
    if not cloned:
        raise missing_group(source, await groups.names(cluster))
    return sorted(cloned)


class _Reset:
    """A reset of a group in some queues, whose masters' addresses are known."""

    def __init__(self, cluster: ClusterAdmin, group: str, addresses: dict[MessageQueue, str]) -> None:
        self._cluster = cluster
        self._group = group
        self._addresses = addresses

    async def plan(self, queue: MessageQueue, target: ResetTarget) -> OffsetChange:
        """Return the change of one queue. Raises SettingsError for an offset that the queue does not have."""
        topic, _, queue_id = queue
        low = _offset(
            await self._ask(queue, RequestCode.GET_MIN_OFFSET, h.GetMinOffsetHeader(topic, queue_id))
        )
        answer = await self._ask(queue, RequestCode.GET_MAX_OFFSET, h.GetMaxOffsetHeader(topic, queue_id))
        high = _offset(answer)
        if target.offset is not None:
            if not low <= target.offset <= high:
                raise SettingsError(
                    f"queue {queue_id} of {topic} on {queue.broker_name} has no offset {target.offset}: "
                    f"it has {low} to {high}"
                )
            if answer.version < Version.V5_0_0:
                raise SettingsError(
                    f"broker {queue.broker_name} is older than 5.0, and resets only to a time, "
                    "to the earliest or to the latest message"
                )
            after = target.offset
        elif target.time is None:
            after = low
        elif target.time == END:
            after = high
        else:
            header = h.SearchOffsetHeader(topic, queue_id, target.time)
            found = await self._ask(queue, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
            after = min(max(_offset(found), low), high)
        return OffsetChange(queue, await self._committed(queue), after)

    async def move(self, move: OffsetChange, target: ResetTarget) -> None:
        """Execute the change of one queue."""
        topic, _, queue_id = move.queue
        header = h.ResetOffsetHeader(
            self._group, topic, target.time or 0, is_force=True, queue_id=queue_id, offset=move.after
        )
        try:
            answer = await self._ask(move.queue, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
        except RemoteError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            commit = h.UpdateConsumerOffsetHeader(self._group, topic, queue_id, move.after)
            await self._ask(move.queue, RequestCode.UPDATE_CONSUMER_OFFSET, commit)
            return
        done = decode(QueueOffsets, answer.body).offsets.get(move.queue, move.after)
        if done != move.after:  # a Java broker with useServerSideResetOffset=false, or before 5.0
            raise NotMoved(
                f"group {self._group} was to be reset to {move.after} in queue {queue_id} of {topic} on "
                f"{move.queue.broker_name}, but the broker set {done}: it resets only to a time"
            )

    async def _committed(self, queue: MessageQueue) -> int | None:
        header = h.QueryConsumerOffsetHeader(
            self._group, queue.topic, queue.queue_id, set_zero_if_not_found=False
        )
        try:
            return _offset(await self._ask(queue, RequestCode.QUERY_CONSUMER_OFFSET, header))
        except RemoteError as error:
            if error.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return None

    async def _ask(self, queue: MessageQueue, code: RequestCode, header: h.Header) -> Command:
        return await self._cluster.ask(self._addresses[queue], code, header)


def _offset(answer: Command) -> int:
    return h.parse(h.OffsetResponseHeader, answer.ext_fields).offset
