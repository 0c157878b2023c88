"""``cometmq top``: a live view of what passes through a cluster, and of what waits in it."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click

from cometmq.admin.cluster import BrokerLine, brokers
from cometmq.admin.offsets import GroupLag, lags
from cometmq.admin.readable import time_text
from cometmq.admin.times import parse_duration
from cometmq.admin.tolerant import TolerantAdmin
from cometmq.admin.topics import TopicAdmin
from cometmq.cli.cluster_session import run_in_cluster
from cometmq.cli.output import json_option, namesrv_option, print_json, table
from cometmq.errors import CometMQError, NoRoute
from cometmq.escaping import printable
from cometmq.net.tasks import bounded_map

if TYPE_CHECKING:  # rich takes 50 ms that --json need not pay
    from rich.console import Console, RenderableType
    from rich.live import Live

TOPICS_MAX: Final = 200
"""Most topics whose queues are asked for in each round."""
AT_ONCE: Final = 16
"""Most topics that are asked for at the same time."""
HEAD_LINES: Final = 10
"""Lines of a screen that are no rows: headings, and blank lines between the tables."""
MIN_ROWS: Final = 3
PIPE_WIDTH: Final = 200
PIPE_HEIGHT: Final = 10_000

BROKER_COLUMNS: Final = ("broker", "id", "address", "in/s", "deliveries/s", "disk", "state")
TOPIC_COLUMNS: Final = ("topic", "in/s", "messages")
GROUP_COLUMNS: Final = ("group", "members", "lag", "lag +/s", "in flight", "ready", "deliveries/s")


class TopicEnds(NamedTuple):
    """The messages of a topic, over all queues and brokers.

    Attributes:
        stored: messages that were ever stored: the sum of the queues' ends.
        kept: messages that are stored now.
    """

    stored: int
    kept: int


class Round(NamedTuple):
    """A cluster at one moment.

    Attributes:
        at_s: that moment on the monotonic clock, s.
        topics: the first ``TOPICS_MAX`` topics by name.
        topic_count: number of all topics.
    """

    at_s: float
    brokers: list[BrokerLine]
    topics: Mapping[str, TopicEnds]
    topic_count: int
    groups: list[GroupLag]


@click.command()
@click.option("--interval", default="2s", show_default=True, metavar="TIME", help="How often.")
@click.option("--count", type=click.IntRange(1), help="Stop after this many rounds.")
@click.option("--once", is_flag=True, help="One round, after one interval that gives rates: for scripts.")
@namesrv_option
@json_option
def top(interval: str, count: int | None, once: bool, namesrv: str, as_json: bool) -> None:
    """Show what passes through a cluster and what waits in it, live, until Ctrl-C.

    Of brokers the messages per second that they receive and deliver, over about ten seconds; of topics those
    stored since the round before, the busiest first; of groups the lag, the largest first, and how much it
    has grown or fallen per second since then. With --json, each round is one document on one line.
    """
    interval_s = parse_duration("--interval", interval) / 1000
    rounds = 1 if once else count
    run_in_cluster(namesrv, lambda cluster: _watch(cluster, namesrv, interval_s, rounds, as_json=as_json))


async def fetch_round(cluster: TopicAdmin) -> Round:
    """Ask a cluster for its brokers, topics and groups."""
    names = await cluster.own_topics()
    cluster = TolerantAdmin(cluster)  # what is wrong with a broker, its own line says

    async def ends(name: str) -> TopicEnds | None:
        try:
            lines = await cluster.queues(name)
        except NoRoute:
            return None  # it was deleted in between
        return TopicEnds(
            sum(line.max_offset for line in lines), sum(line.max_offset - line.min_offset for line in lines)
        )

    shown = names[:TOPICS_MAX]
    lines, groups, found = await asyncio.gather(
        brokers(cluster), lags(cluster), bounded_map(ends, shown, AT_ONCE)
    )
    topics = {name: one for name, one in zip(shown, found, strict=True) if one is not None}
    return Round(time.monotonic(), lines, topics, len(names), groups)


async def _watch(
    cluster: TopicAdmin, namesrv: str, interval_s: float, count: int | None, *, as_json: bool
) -> None:
    """Show a round after each interval; on a terminal each replaces the one before.

    A cluster that does not answer ends the command in the first round; later the screen says so.
    """
    from rich.console import Console  # noqa: PLC0415 - rich takes 50 ms that others need not pay
    from rich.live import Live  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    console = Console()
    before = await fetch_round(cluster)
    with ExitStack() as stack:
        live = None
        if console.is_terminal and not as_json and count is None:
            live = stack.enter_context(Live(console=console, screen=True, auto_refresh=False))
            _show(live, _screen(console, namesrv, before, before))
        elif not console.is_terminal:
            console.width, console.height = PIPE_WIDTH, PIPE_HEIGHT
        while count is None or count > 0:
            await asyncio.sleep(interval_s)
            count = None if count is None else count - 1
            try:
                now = await fetch_round(cluster)
            except CometMQError as error:
                if live is None:
                    raise
                text = f"{printable(str(error))}\n\ntrying again each {interval_s:g} s; Ctrl-C to stop"
                _show(live, Text(text))
                continue
            if as_json:
                print_json(_json_of(now, before))
            elif live is not None:
                _show(live, _screen(console, namesrv, now, before))
            else:
                console.print(_screen(console, namesrv, now, before))
            before = now


def _show(live: "Live", what: "RenderableType") -> None:
    live.update(what, refresh=True)


def _screen(console: "Console", namesrv: str, now: Round, before: Round) -> "RenderableType":
    """Build the screen: a line about the whole, and a table each of brokers, topics and groups."""
    from rich.console import Group  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    rows = max((console.height - HEAD_LINES - len(now.brokers)) // 2, MIN_ROWS)
    topics, groups = _topic_rows(now, before), _group_rows(now, before)
    return Group(
        Text(_summary(namesrv, now), style="bold"),
        Text(),
        table(BROKER_COLUMNS, map(_broker_row, now.brokers)),
        Text(),
        table(_columns(TOPIC_COLUMNS, len(topics), now.topic_count, rows), topics[:rows]),
        Text(),
        table(_columns(GROUP_COLUMNS, len(groups), len(groups), rows), groups[:rows]),
    )


def _columns(columns: Sequence[str], known: int, there: int, rows: int) -> Sequence[str]:
    """Add to the first heading how many rows are shown, if not all are."""
    shown = min(known, rows)
    return columns if shown == there else (f"{columns[0]} ({shown} of {there})", *columns[1:])


def _summary(namesrv: str, now: Round) -> str:
    counts = f"brokers {len(now.brokers)}  topics {now.topic_count}  groups {len(now.groups)}"
    rate_in = sum(line.in_tps or 0 for line in now.brokers)
    deliveries = sum(line.deliveries_per_s or 0 for line in now.brokers)
    lag = sum(group.lag for group in now.groups)
    at = time_text(time.time_ns() // 1_000_000)[11:19]
    rates = f"in {rate_in:,.1f}/s  deliveries {deliveries:,.1f}/s  lag {lag:,}"
    return f"{printable(namesrv)}  {at} UTC  {counts}  {rates}"


def _broker_row(line: BrokerLine) -> tuple[object, ...]:
    def shown(value: float | None, how: str) -> str:
        return "-" if value is None else format(value, how)

    return (
        *(line.broker_name, line.broker_id, line.address),
        *(shown(line.in_tps, ",.1f"), shown(line.deliveries_per_s, ",.1f"), shown(line.disk_ratio, ".0%")),
        line.trouble or line.warning or "ok",
    )


def _topic_rows(now: Round, before: Round) -> list[tuple[object, ...]]:
    """Return the rows of topics, the busiest first."""
    rates = _topic_rates(now, before)
    order = sorted(now.topics, key=lambda name: (-rates[name], name))
    return [(name, f"{rates[name]:,.1f}", f"{now.topics[name].kept:,}") for name in order]


def _group_rows(now: Round, before: Round) -> list[tuple[object, ...]]:
    """Return the rows of groups, the largest lag first."""
    growth = _lag_growth(now, before)
    return [
        (
            *(one.group, one.members, f"{one.lag:,}", f"{growth[one.group]:+,.1f}"),
            *(f"{one.in_flight:,}", f"{one.ready:,}", f"{one.deliveries_per_s:,.1f}"),
        )
        for one in sorted(now.groups, key=lambda one: (-one.lag, one.group))
    ]


def _topic_rates(now: Round, before: Round) -> dict[str, float]:
    """Return the messages per second stored in each topic since ``before``."""
    took_s = max(now.at_s - before.at_s, 1e-3)
    return {
        name: max(one.stored - before.topics.get(name, one).stored, 0) / took_s
        for name, one in now.topics.items()
    }


def _lag_growth(now: Round, before: Round) -> dict[str, float]:
    """Return by how many messages per second the lag of each group has grown since ``before``."""
    took_s = max(now.at_s - before.at_s, 1e-3)
    past = {one.group: one.lag for one in before.groups}
    return {one.group: (one.lag - past.get(one.group, one.lag)) / took_s for one in now.groups}


def _json_of(now: Round, before: Round) -> dict[str, Any]:
    rates, growth = _topic_rates(now, before), _lag_growth(now, before)
    return {
        "brokers": [line._asdict() for line in now.brokers],
        "topics": [
            {"topic": name, "in_per_s": round(rates[name], 1), "messages": one.kept}
            for name, one in now.topics.items()
        ],
        "topic_count": now.topic_count,
        "groups": [one._asdict() | {"lag_growth_per_s": round(growth[one.group], 1)} for one in now.groups],
    }
