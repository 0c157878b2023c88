"""Survey a cluster: all its topics and groups with their lags, by few requests, whatever one broker answers.

Committed offsets come from one request to each master (GET_ALL_CONSUMER_OFFSET), the ends of queues from one
for each topic, members from one for each group. A broker that does not answer, or refuses, is reported as a
trouble, and the others are surveyed. (GET_BROKER_CONSUME_STATS would cover all lags, too, but it occupies a
broker for 200 ms where 100 groups have 8,000 queues, and takes 500 ms to decode.)

Lags are those of ``offsets.progress_of``, but for messages that were popped and are not acknowledged.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from cometmq.admin.cluster import NOT_FOUND, ClusterAdmin
from cometmq.admin.groups import PAGE
from cometmq.admin.messages import TOOLS_GROUP
from cometmq.admin.tolerant import Trouble
from cometmq.admin.topics import user_topics
from cometmq.cluster.system_names import is_user_group
from cometmq.errors import NetworkError, RemoteError
from cometmq.format.layout import DLQ_PREFIX
from cometmq.net.tasks import bounded_map
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import ConsumerConnections, ConsumerOffsets, GroupConfigs, ProducerMembers
from cometmq.wire.bodies.stats import TimeSpans, TopicStats, decode_topic_stats
from cometmq.wire.bodies.topic import TopicConfig, TopicTable
from cometmq.wire.codes import RequestCode, version_name
from cometmq.wire.headers import (
    ConsumerGroupHeader,
    GetAllGroupConfigHeader,
    GetAllTopicConfigHeader,
    TopicHeader,
)
from cometmq.wire.headers.admin import GroupTopicHeader

AT_ONCE: Final = 200
"""Most requests that wait for answers of one broker at a time."""


class TopicSummary(NamedTuple):
    """A topic on all brokers.

    Attributes:
        brokers: names of the brokers that have it, sorted.
        queue_count: queues to read, of all brokers.
        perm: the sum of 4 (read), 2 (write) and 1 (inherit), of the first broker.
        message_count: messages that can still be read.
        rate: messages stored per second, in the last minute.
        last_time: store time of the last message, ms since the epoch; 0 if there is none.
        lags: messages that groups have not handled, by group.
        is_users: whether users created it, not brokers (system topics) or groups (retries, dead letters).
    """

    topic: str
    brokers: list[str]
    queue_count: int
    perm: int
    message_count: int
    rate: float
    last_time: int
    lags: dict[str, int]
    is_users: bool


class GroupSummary(NamedTuple):
    """A group on all brokers.

    Attributes:
        members: number of its running members.
        lags: messages that it has not handled, by topic; its retries have a topic of their own.
        dead_letter_count: messages that it gave up.
        is_divided: whether members subscribe differently, so that each misses messages.
    """

    group: str
    members: int
    lags: dict[str, int]
    dead_letter_count: int
    is_divided: bool

    @property
    def lag(self) -> int:
        """Messages that it has not handled, of all topics."""
        return sum(self.lags.values())


class ClusterSurvey(NamedTuple):
    """All topics and groups, sorted by name, and what could not be learned."""

    topics: list[TopicSummary]
    groups: list[GroupSummary]
    troubles: list[Trouble]


class RetainedSpan(NamedTuple):
    """The store times of the oldest and newest message of a topic, ms since the epoch; 0 if it has none."""

    first_time: int
    last_time: int


class ProducerLine(NamedTuple):
    """A running producer, as one broker knows it; the time is that of its last heartbeat, ms."""

    group: str
    client_id: str
    broker_name: str
    address: str
    language: str
    version: str
    heard_time: int


class _Part(NamedTuple):
    """What one broker has told."""

    topics: Mapping[str, TopicConfig]
    groups: Iterable[str]
    offsets: Mapping[str, Mapping[int, int]]
    stats: Mapping[str, TopicStats]
    connections: Mapping[str, ConsumerConnections]
    troubles: list[Trouble]


async def survey(cluster: ClusterAdmin) -> ClusterSurvey:
    """Survey all masters. Raises NoRoute without a master, NetworkError if no name server answers."""
    info, masters = await asyncio.gather(cluster.info(), cluster.masters())
    names = sorted(masters)
    answers = await asyncio.gather(*(_OneBroker(cluster, name, masters[name]).part() for name in names))
    parts = dict(zip(names, answers, strict=True))
    lags_of_topics, lags_of_groups = _lags(parts)
    topics = sorted({topic for part in answers for topic in part.topics})
    groups = sorted({*lags_of_groups, *(group for part in answers for group in part.groups)})
    users = set(user_topics(topics, info))
    return ClusterSurvey(
        [_topic(topic, parts, lags_of_topics.get(topic, {}), topic in users) for topic in topics],
        [_group(group, answers, lags_of_groups.get(group, {})) for group in groups],
        [trouble for part in answers for trouble in part.troubles],
    )


async def retained_spans(cluster: ClusterAdmin, topics: Iterable[TopicSummary]) -> dict[str, RetainedSpan]:
    """Return the retained span of topics; those of which no broker reports it are left out."""
    masters = await cluster.masters()

    async def one(topic: TopicSummary) -> tuple[str, RetainedSpan] | None:
        asked = [masters[name] for name in topic.brokers if name in masters]
        try:
            found = await asyncio.gather(*(_spans(cluster, address, topic.topic) for address in asked))
        except (RemoteError, NetworkError):
            return None
        spans = [span for spans in found for span in spans.spans]
        firsts = [span.min_time for span in spans if span.min_time > 0]
        lasts = [span.max_time for span in spans if span.max_time > 0]
        return topic.topic, RetainedSpan(min(firsts, default=0), max(lasts, default=0))

    answers = await bounded_map(one, [topic for topic in topics if topic.message_count], AT_ONCE)
    return dict(answer for answer in answers if answer is not None)


async def producers(cluster: ClusterAdmin) -> tuple[list[ProducerLine], list[Trouble]]:
    """Return the running producers that each master knows, sorted. Raises as ``survey``."""
    masters = sorted((await cluster.masters()).items())
    answers = await asyncio.gather(*(_producers(cluster, *one) for one in masters))
    lines = [line for answer in answers if not isinstance(answer, Trouble) for line in answer]
    return sorted(lines), [answer for answer in answers if isinstance(answer, Trouble)]


async def _producers(cluster: ClusterAdmin, name: str, address: str) -> list[ProducerLine] | Trouble:
    try:
        answer = await cluster.ask(address, RequestCode.GET_ALL_PRODUCER_INFO)
    except (RemoteError, NetworkError) as error:
        return Trouble(name, address, str(error))
    return [
        ProducerLine(
            group, one.client_id, name, one.address.lstrip("/"), one.language.value,
            version_name(one.version), one.heard_time,
        )
        for group, members in decode(ProducerMembers, answer.body).groups.items()
        for one in members
    ]  # fmt: skip


async def _spans(cluster: ClusterAdmin, address: str, topic: str) -> TimeSpans:
    code, header = RequestCode.QUERY_CONSUME_TIME_SPAN, GroupTopicHeader(topic, TOOLS_GROUP)
    return decode(TimeSpans, (await cluster.ask(address, code, header)).body)


class _OneBroker:
    """One master, of which everything is asked."""

    def __init__(self, cluster: ClusterAdmin, name: str, address: str) -> None:
        self._cluster = cluster
        self._name = name
        self._address = address
        self._troubles: dict[str, Trouble] = {}  # by text: each once

    async def part(self) -> _Part:
        """Return what it tells; nothing and a trouble if it does not answer."""
        ask, address = self._cluster.ask, self._address
        groups_header = GetAllGroupConfigHeader(0, None, PAGE)
        try:
            topics, groups, offsets = await asyncio.gather(
                ask(address, RequestCode.GET_ALL_TOPIC_CONFIG, GetAllTopicConfigHeader()),
                ask(address, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, groups_header),
                ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET),
            )
        except (RemoteError, NetworkError) as error:
            return _Part({}, (), {}, {}, {}, [Trouble(self._name, address, str(error))])
        configs = decode(TopicTable, topics.body).topics
        committed = decode(ConsumerOffsets, offsets.body).offsets
        known = {*decode(GroupConfigs, groups.body).groups, *map(_group_of, committed)}
        names = sorted(filter(is_user_group, known))
        stats = await bounded_map(self._stats, configs, AT_ONCE)
        connections = await bounded_map(self._connections, names, AT_ONCE)
        return _Part(
            configs,
            names,
            committed,
            {topic: one for topic, one in zip(configs, stats, strict=True) if one is not None},
            {name: one for name, one in zip(names, connections, strict=True) if one is not None},
            list(self._troubles.values()),
        )

    async def _stats(self, topic: str) -> TopicStats | None:
        body = await self._body(RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic))
        return None if body is None else decode_topic_stats(body)

    async def _connections(self, group: str) -> ConsumerConnections | None:
        body = await self._body(RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader(group))
        return None if body is None else decode(ConsumerConnections, body)

    async def _body(self, code: RequestCode, header: TopicHeader | ConsumerGroupHeader) -> bytes | None:
        """Return the body of an answer; None if there is no such topic or group now, or it is refused."""
        try:
            return (await self._cluster.ask(self._address, code, header)).body
        except RemoteError as error:
            if error.code not in NOT_FOUND:
                self._troubles[str(error)] = Trouble(self._name, self._address, str(error))
        except NetworkError as error:
            self._troubles[str(error)] = Trouble(self._name, self._address, str(error))
        return None


def _lags(parts: Mapping[str, _Part]) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]:
    """Return the lags by topic and group, and by group and topic."""
    of_topics: dict[str, dict[str, int]] = {}
    of_groups: dict[str, dict[str, int]] = {}
    for name, part in parts.items():
        for key, committed in part.offsets.items():
            topic, _, group = key.rpartition("@")
            stats = part.stats.get(topic)
            if stats is None or not is_user_group(group) or not _may_consume(part, group, topic):
                continue
            behind = sum(
                max(at.max_offset - committed.get(queue.queue_id, 0), 0)
                for queue, at in stats.offsets.items()
                if queue.broker_name == name
            )
            lags = of_topics.setdefault(topic, {})
            lags[group] = of_groups.setdefault(group, {})[topic] = lags.get(group, 0) + behind
    return of_topics, of_groups


def _may_consume(part: _Part, group: str, topic: str) -> bool:
    """Return whether a group still consumes a topic; not while its members subscribe to others only."""
    members = part.connections.get(group)
    return members is None or not members.subscriptions or topic in members.subscriptions


def _topic(topic: str, parts: Mapping[str, _Part], lags: dict[str, int], is_users: bool) -> TopicSummary:
    configs = {name: part.topics[topic] for name, part in parts.items() if topic in part.topics}
    stats = [part.stats[topic] for part in parts.values() if topic in part.stats]
    ends = [at for one in stats for at in one.offsets.values()]
    return TopicSummary(
        topic,
        sorted(configs),
        sum(config.read_queue_count for config in configs.values()),
        next(iter(configs.values())).perm,
        sum(at.max_offset - at.min_offset for at in ends),
        sum(one.put_tps for one in stats),
        max((at.last_update_time for at in ends), default=0),
        lags,
        is_users,
    )


def _group(group: str, parts: Sequence[_Part], lags: dict[str, int]) -> GroupSummary:
    connections = [part.connections[group] for part in parts if group in part.connections]
    ends = [part.stats.get(DLQ_PREFIX + group, TopicStats()).offsets for part in parts]
    return GroupSummary(
        group,
        len({member.client_id for one in connections for member in one.connections}),
        lags,
        sum(at.max_offset - at.min_offset for one in ends for at in one.values()),
        any(one.differences for one in connections),
    )


def _group_of(key: str) -> str:
    return key.rpartition("@")[2]
