"""Survey a cluster: all its topics and groups with their lags, by few requests, whatever one broker answers.

The statistics of each topic come from one request to each master; for groups see ``group_survey``. A broker
that does not answer, refuses, or answers what cannot be read is reported as a trouble, and the others are
surveyed.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.group_survey import (
    AT_ONCE,
    GroupSummary,
    group_part,
    group_summaries,
    surveyed_brokers,
)
from cometmq.admin.messages import TOOLS_GROUP
from cometmq.admin.surveyed_broker import SurveyedBroker
from cometmq.admin.tolerant import Trouble
from cometmq.admin.topics import user_topics
from cometmq.client.answer import answers_of
from cometmq.errors import NetworkError, RemoteError
from cometmq.net.tasks import bounded_map
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.group import ProducerMembers
from cometmq.wire.bodies.stats import TimeSpans, TopicStats
from cometmq.wire.bodies.topic import TopicConfig
from cometmq.wire.codes import RequestCode, version_name
from cometmq.wire.headers.admin import GroupTopicHeader


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


class _TopicPart(NamedTuple):
    """What one broker knows of topics: their settings and statistics by name."""

    configs: Mapping[str, TopicConfig]
    stats: Mapping[str, TopicStats]


async def survey(cluster: ClusterAdmin) -> ClusterSurvey:
    """Survey all masters. Raises NoRoute without a master, NetworkError if no name server answers."""
    info, brokers = await asyncio.gather(cluster.info(), surveyed_brokers(cluster, AT_ONCE))
    topic_parts = await asyncio.gather(*map(_topic_part, brokers.values()))
    group_parts = await asyncio.gather(*map(group_part, brokers.values()))  # it may need the statistics, too
    parts = dict(zip(brokers, topic_parts, strict=True))
    groups = group_summaries(group_parts)
    lags: dict[str, dict[str, int]] = {}
    for group in groups:
        for topic, lag in group.lags.items():
            lags.setdefault(topic, {})[group.group] = lag
    topics = sorted({topic for part in topic_parts for topic in part.configs})
    users = set(user_topics(topics, info))
    return ClusterSurvey(
        [_topic(topic, parts, lags.get(topic, {}), topic in users) for topic in topics],
        groups,
        [trouble for broker in brokers.values() for trouble in broker.troubles],
    )


async def _topic_part(broker: SurveyedBroker) -> _TopicPart:
    configs = await broker.topics()
    return _TopicPart(configs, await broker.stats(configs))


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
        with answers_of(address):
            found = decode(ProducerMembers, answer.body).groups
    except (RemoteError, NetworkError) as error:
        return Trouble(name, address, str(error))
    return [
        ProducerLine(
            group, one.client_id, name, one.address.lstrip("/"), one.language.value,
            version_name(one.version), one.heard_time,
        )
        for group, members in found.items()
        for one in members
    ]  # fmt: skip


async def _spans(cluster: ClusterAdmin, address: str, topic: str) -> TimeSpans:
    code, header = RequestCode.QUERY_CONSUME_TIME_SPAN, GroupTopicHeader(topic, TOOLS_GROUP)
    answer = await cluster.ask(address, code, header)
    with answers_of(address):
        return decode(TimeSpans, answer.body)


def _topic(topic: str, parts: Mapping[str, _TopicPart], lags: dict[str, int], is_users: bool) -> TopicSummary:
    configs = {name: part.configs[topic] for name, part in parts.items() if topic in part.configs}
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
