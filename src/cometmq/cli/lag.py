"""``cometmq lag``: the lag of consumer groups, once or as a live view."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Final, NamedTuple

import click

from cometmq.admin import groups
from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.doctor.findings import counted
from cometmq.admin.offsets import GroupLag, QueueProgress, lags
from cometmq.admin.offsets import lag as lag_of
from cometmq.admin.readable import duration_text
from cometmq.admin.times import parse_duration
from cometmq.admin.tolerant import TolerantAdmin, Trouble
from cometmq.cli.cluster_session import run_in_cluster
from cometmq.cli.output import (
    exit_if_troubled,
    json_option,
    namesrv_option,
    print_json,
    print_line,
    print_table,
    table,
)
from cometmq.errors import SettingsError

GROUP_COLUMNS: Final = ("group", "members", "lag", "in flight", "ready", "ahead", "deliveries/s", "committed")
QUEUE_COLUMNS: Final = (
    *("topic", "broker", "queue", "end", "committed", "lag", "in flight", "ready", "behind", "member"),
)
RATE: Final = "handled/s"

Key = tuple[str, str, int]


class View(NamedTuple):
    """The lag of a group at one moment.

    Attributes:
        owners: the client id of the member that consumes each queue; queues of nobody are not in it.
        at_s: that moment on the monotonic clock, s.
    """

    group: str
    queues: list[QueueProgress]
    owners: Mapping[Key, str]
    at_s: float

    @property
    def total(self) -> int:
        """The group's lag in all queues, in messages."""
        return sum(queue.lag for queue in self.queues)

    @property
    def in_flight(self) -> int:
        """Number of delivered messages that are not handled yet, in all queues."""
        return sum(queue.in_flight for queue in self.queues)

    @property
    def ready(self) -> int:
        """Number of messages that wait to be delivered for the first time, in all queues."""
        return sum(queue.ready for queue in self.queues)

    @property
    def ahead(self) -> int:
        """How far the group has committed beyond the ends of queues, in all queues."""
        return sum(queue.ahead for queue in self.queues)

    @property
    def has_committed(self) -> bool:
        """Whether the group has committed an offset of any queue."""
        return any(queue.has_committed for queue in self.queues)


@click.command()
@click.argument("group", required=False)
@click.option("--topic", help="Only this topic.")
@click.option("--watch", is_flag=True, help="Repeat until Ctrl-C.")
@click.option("--interval", default="2s", show_default=True, metavar="TIME", help="With --watch: how often.")
@click.option("--count", type=click.IntRange(1), help="With --watch: stop after this many repetitions.")
@namesrv_option
@json_option
def lag(
    group: str | None,
    topic: str | None,
    watch: bool,
    interval: str,
    count: int | None,
    namesrv: str,
    as_json: bool,
) -> None:
    """Show the lag of GROUP in each queue, and its consumer; without GROUP, the lag of all groups.

    Lag is the number of messages that are not handled: those in flight have been delivered to a member, and
    those that are ready have not. A group that pops has messages in flight behind what it has committed.
    Where nothing is committed yet, lag counts from where the group begins, if that is known. Ahead is how far
    a group has committed beyond the end of a queue: it misses the messages up to there.
    Behind is the age of the message that the group has reached, or how far it is ahead.

    If a broker does not answer, or answers what cannot be read, the lags of all groups are those on the
    others, and the exit code is 1.
    """
    if group is None and topic is not None:
        raise SettingsError("--topic: give GROUP too, whose lag in the topic to show")
    interval_s = parse_duration("--interval", interval) / 1000
    if watch:
        run_in_cluster(
            namesrv, lambda cluster: _watch(cluster, group, topic, interval_s, count, as_json=as_json)
        )
    elif group is None:
        lines, troubles = run_in_cluster(namesrv, _all_lags)
        print_lags(lines, as_json=as_json)
        exit_if_troubled(troubles)
    else:
        _print(
            run_in_cluster(namesrv, lambda cluster: fetch_view(cluster, group, topic)), None, as_json=as_json
        )


async def _all_lags(cluster: ClusterAdmin) -> tuple[list[GroupLag], list[Trouble]]:
    """Return the lags of all groups on the brokers that report them, and what the others answer."""
    tolerant = TolerantAdmin(cluster)
    return await lags(tolerant), tolerant.troubles


async def fetch_view(cluster: ClusterAdmin, group: str, topic: str | None) -> View:
    """Return the lag of a group, and the consumers of its queues."""
    progress, owners = await asyncio.gather(lag_of(cluster, group, topic), groups.owners(cluster, group))
    return View(group, progress.queues, owners, time.monotonic())


def print_lags(lines: Sequence[GroupLag], *, as_json: bool) -> None:
    """Print the lag of groups."""
    if as_json:
        print_json([line._asdict() for line in lines])
    else:
        print_table(GROUP_COLUMNS, _group_rows(lines))


async def _watch(
    cluster: ClusterAdmin,
    group: str | None,
    topic: str | None,
    interval_s: float,
    count: int | None,
    *,
    as_json: bool,
) -> None:
    """Print the lag every ``interval_s``; on a terminal each output replaces the one before."""
    from rich.console import Console  # noqa: PLC0415 - rich takes 50 ms that others need not pay
    from rich.live import Live  # noqa: PLC0415 - as above

    console = Console()
    before: View | None = None
    with ExitStack() as stack:
        live = None
        if console.is_terminal and not as_json:
            live = stack.enter_context(Live(console=console, auto_refresh=False))
        while count is None or count > 0:
            count = None if count is None else count - 1
            if group is None:
                lines = await lags(cluster)
                if live is None:
                    print_lags(lines, as_json=as_json)
                else:
                    live.update(table(GROUP_COLUMNS, _group_rows(lines)), refresh=True)
            else:
                view = await fetch_view(cluster, group, topic)
                if live is None:
                    _print(view, before, as_json=as_json)
                else:
                    live.update(table(_columns(before), _rows(view, before)), refresh=True)
                before = view
            if count != 0:
                await asyncio.sleep(interval_s)


def _group_rows(lines: Sequence[GroupLag]) -> list[tuple[object, ...]]:
    return [(*line[:-3], f"{line.deliveries_per_s:.1f}", _what_is_committed(line)) for line in lines]


def _what_is_committed(line: GroupLag) -> str:
    if line.has_committed:
        return "yes"
    return "broadcasts" if line.is_broadcasting else "nothing yet"


def committed_text(queue: QueueProgress) -> int | str:
    """Return the committed offset of a queue for a table; a dash for none."""
    return queue.committed if queue.has_committed else "-"


def beginning_lines(queues: Sequence[QueueProgress]) -> list[str]:
    """Return lines about the queues in which a group has committed nothing."""
    if not queues:
        return ["nothing committed yet: where the group begins is not known, or it broadcasts and has no lag"]
    begun = sum(not queue.has_committed and queue.is_known for queue in queues)
    unknown = sum(not queue.is_known for queue in queues)
    lines = []
    if begun:
        text = "lag counts from where the group begins"
        lines.append(f"nothing committed yet in {counted(begun, 'queue')}: {text}")
    if unknown:
        text = "it is not known where the group begins, so no lag is counted"
        lines.append(f"nothing committed yet in {counted(unknown, 'queue')}: {text}")
    return lines


def _print(view: View, before: View | None, *, as_json: bool) -> None:
    if as_json:
        print_json(_json_of(view, before))
        return
    print_table(_columns(before), _rows(view, before))
    for line in beginning_lines(view.queues):
        print_line(line)
    ahead = f", ahead by {view.ahead} elsewhere: cometmq offset reset moves it back" if view.ahead else ""
    print_line(f"group {view.group}: {counted(view.total, 'message')} behind{ahead}")


def _columns(before: View | None) -> Sequence[str]:
    return QUEUE_COLUMNS if before is None else (*QUEUE_COLUMNS, RATE)


def _rows(view: View, before: View | None) -> list[tuple[object, ...]]:
    rates = _rates(view, before)
    return [
        (
            *(queue.topic, queue.broker_name, queue.queue_id, queue.max_offset, committed_text(queue)),
            *(queue.lag, queue.in_flight, queue.ready, _behind(queue), view.owners.get(_key(queue), "-")),
            *(() if before is None else (f"{rates[_key(queue)]:.1f}",)),
        )
        for queue in view.queues
    ]


def _json_of(view: View, before: View | None) -> dict[str, Any]:
    rates = _rates(view, before)
    queues = [
        queue._asdict()
        | {"lag": queue.lag, "in_flight": queue.in_flight, "ready": queue.ready, "ahead": queue.ahead}
        | {"member": view.owners.get(_key(queue))}
        | ({} if before is None else {"handled_per_s": round(rates[_key(queue)], 1)})
        for queue in view.queues
    ]
    totals = {"lag": view.total, "in_flight": view.in_flight, "ready": view.ready, "ahead": view.ahead}
    return {"group": view.group, **totals, "has_committed": view.has_committed, "queues": queues}


def _rates(view: View, before: View | None) -> dict[Key, float]:
    """Return the messages per second handled of each queue since ``before``."""
    if before is None:
        return {}
    past = {_key(queue): queue.position for queue in before.queues}
    took_s = max(view.at_s - before.at_s, 1e-3)
    return {
        _key(queue): max(queue.position - past.get(_key(queue), queue.position), 0) / took_s
        for queue in view.queues
    }


def _key(queue: QueueProgress) -> Key:
    return queue.topic, queue.broker_name, queue.queue_id


def _behind(queue: QueueProgress) -> str:
    if queue.ahead:
        return f"ahead by {queue.ahead}"
    if not queue.lag:
        return "-"
    return duration_text(int(time.time() * 1000) - queue.last_time) if queue.last_time else "all"
