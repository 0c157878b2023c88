"""The list of topics, and the page of one: its queues, groups and settings."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from starlette.responses import Response

from cometmq.admin import offsets
from cometmq.admin.survey import RetainedSpan, TopicSummary, retained_spans, survey
from cometmq.admin.tolerant import TolerantAdmin
from cometmq.admin.topics import QueueLine
from cometmq.cluster.system_names import is_user_group
from cometmq.console.visit import Visit
from cometmq.errors import SettingsError
from cometmq.wire.bodies.group import GroupNames
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import TopicHeader

PAGE: Final = 100
"""Topics on a page of the list."""
SORTS: Final[dict[str, Callable[[TopicSummary], Any]]] = {
    "name": lambda topic: topic.topic,
    "rate": lambda topic: -topic.rate,
    "messages": lambda topic: -topic.message_count,
    "lag": lambda topic: -sum(topic.lags.values()),
    "last": lambda topic: -topic.last_time,
}
"""The orders of the list by their names in the address."""


class TopicGroup(NamedTuple):
    """A group that consumes a topic, with its lag there; None if it is not known."""

    group: str
    lag: int | None
    deliveries_per_s: float | None


async def topics(visit: Visit) -> Response:
    """Show the list, a page of it at a time."""
    part, sort = visit.text("find"), visit.text("sort", "name")
    system = visit.text("system") == "1"
    number = visit.number("page", 1, least=1, most=1_000_000)
    if sort not in SORTS:
        raise SettingsError(f"sort {sort!r}: give one of {', '.join(SORTS)}")
    found = await survey(visit.cluster)
    chosen = [
        topic for topic in found.topics if (system or topic.is_users) and part.lower() in topic.topic.lower()
    ]
    chosen.sort(key=SORTS[sort])
    shown = chosen[(number - 1) * PAGE : number * PAGE]
    spans = await retained_spans(visit.cluster, shown)
    return visit.page(
        "topics.html",
        here="/topics",
        topics=shown,
        spans=spans,
        nothing=RetainedSpan(0, 0),
        total=len(chosen),
        first=(number - 1) * PAGE,
        pages=-(-len(chosen) // PAGE),
        number=number,
        query={"find": part, "sort": sort, "system": "1" if system else ""},
        troubles=found.troubles,
    )


async def topic(visit: Visit) -> Response:
    """Show one topic."""
    name = visit.part("topic")
    cluster = TolerantAdmin(visit.cluster)
    queues, configs, groups = await asyncio.gather(
        cluster.queues(name), cluster.configs(name), _groups(cluster, name)
    )
    return visit.page(
        "topic.html",
        here="/topics",
        topic=name,
        queues=queues,
        total=_total(queues),
        configs=configs,
        groups=groups,
        troubles=cluster.troubles,
    )


def _total(queues: list[QueueLine]) -> int:
    return sum(queue.max_offset - queue.min_offset for queue in queues)


async def _groups(cluster: TolerantAdmin, topic: str) -> list[TopicGroup]:
    """Return the groups that consume a topic, those that lag most first."""
    answers = await cluster.ask_masters(
        RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader(topic), GroupNames
    )
    names = sorted({group for answer in answers.values() for group in answer.groups if is_user_group(group)})
    found = await asyncio.gather(*(offsets.progress_of(cluster, name, topic) for name in names))
    lags = [
        TopicGroup(
            one.group, sum(queue.lag for queue in one.queues) if one.queues else None, one.deliveries_per_s
        )
        for one in found
    ]
    return sorted(lags, key=lambda one: -(one.lag or 0))
