"""``cometmq topic shrink``: remove queues from a topic without losing a message."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import click

from cometmq.admin.shrink import SETTLE_S, NotDrained, Progress, ShrinkResult, Step, Unconsumed
from cometmq.admin.shrink import shrink as shrink_topic
from cometmq.admin.times import parse_duration
from cometmq.admin.topics import TopicAdmin
from cometmq.cli.cluster_session import run_in_cluster
from cometmq.cli.output import json_option, namesrv_option, print_json, print_line
from cometmq.escaping import printable

SHOWN_MAX = 20
"""Most queues and groups shown while it waits."""

Show = Callable[[Progress], None]


@click.command()
@click.argument("name", metavar="TOPIC")
@click.option(
    "--queues", type=click.IntRange(1, 65_535), required=True, help="How many to keep on each broker."
)
@click.option(
    "--timeout", default="10m", show_default=True, metavar="TIME", help="How long to wait for consumers."
)
@click.option(
    "--settle",
    default=f"{SETTLE_S:.0f}s",
    show_default=True,
    metavar="TIME",
    help="Required time without messages in the retired queues. RocketMQ's producers may send there for "
    "30s after a change.",
)
@click.option(
    "--no-consumers-ok", is_flag=True, help="Abandon their messages if no group consumes the topic."
)
@click.option(
    "--skip-group",
    "skipped",
    multiple=True,
    metavar="GROUP",
    help="A group that need not have consumed them: one that is dead, or that broadcasts. Repeatable.",
)
@namesrv_option
@json_option
@click.pass_context
def shrink(
    context: click.Context,
    name: str,
    queues: int,
    timeout: str,
    settle: str,
    no_consumers_ok: bool,
    skipped: tuple[str, ...],
    namesrv: str,
    as_json: bool,
) -> None:
    """Lower TOPIC to --queues queues on each broker, so that no message is lost.

    First it lowers the write queues, then it waits for all consumer groups, then it lowers the read queues.
    Until then all messages can be read, and it can be stopped and run again.

    Exit codes: 0 it has no more queues than that; 1 messages would be lost, or a server refused.
    """
    timeout_s = parse_duration("--timeout", timeout) / 1000
    settle_s = parse_duration("--settle", settle) / 1000

    async def run(show: Show, admin: TopicAdmin) -> ShrinkResult:
        return await shrink_topic(
            admin,
            name,
            queues,
            timeout_s=timeout_s,
            settle_s=settle_s,
            no_consumers_ok=no_consumers_ok,
            skipped_groups=skipped,
            on_progress=show,
        )

    try:
        with _progress(as_json=as_json) as show:
            shrunk = run_in_cluster(namesrv, partial(run, show))
    except NotDrained as error:
        if not as_json:
            raise
        left = [left._asdict() for left in error.left]
        print_json({"topic": name, "queues": queues, "shrunk": False, "why": str(error), "left": left})
        context.exit(1)
    if as_json:
        retired = [{"broker_name": queue.broker_name, "queue_id": queue.queue_id} for queue in shrunk.retired]
        print_json(
            {"topic": name, "queues": queues, "shrunk": True, "retired": retired, "groups": shrunk.groups}
        )
    else:
        print_line(_summary(shrunk))


def _summary(shrunk: ShrinkResult) -> str:
    if not shrunk.retired:
        return f"topic {shrunk.topic}: no broker has more than {shrunk.queues} queues of it, nothing to do"
    who = f"consumed by {', '.join(shrunk.groups)}" if shrunk.groups else "which no group consumes"
    return f"topic {shrunk.topic}: {shrunk.queues} queues; {len(shrunk.retired)} are retired, {who}"


@contextmanager
def _progress(*, as_json: bool) -> Iterator[Show]:
    """Show the progress on standard error: a live view on a terminal, else a line for each step."""
    if as_json:
        yield lambda _: None
        return
    if not sys.stderr.isatty():
        yield _Lines().show
        return
    from rich.console import Console  # noqa: PLC0415 - rich takes 50 ms that --json need not pay
    from rich.live import Live  # noqa: PLC0415 - as above
    from rich.text import Text  # noqa: PLC0415 - as above

    with Live(console=Console(stderr=True), transient=True) as live:
        yield lambda progress: live.update(Text("\n".join(_view(progress))))


def _view(progress: Progress) -> list[str]:
    """Return the lines of the live view."""
    left = sorted(progress.left, key=lambda left: -left.messages)
    lines = [f"{_headline(progress)}, quiet for {progress.quiet_s:.0f} s", *map(_line, left[:SHOWN_MAX])]
    return lines if len(left) <= SHOWN_MAX else [*lines, f"  … and {len(left) - SHOWN_MAX} more"]


def _headline(progress: Progress) -> str:
    count = sum(left.messages for left in progress.left)
    return f"{progress.step.value}: {count} messages left" if count else progress.step.value


def _line(left: Unconsumed) -> str:
    group = "no group" if left.group is None else f"group {left.group}"
    return printable(f"  {left.broker_name} queue {left.queue_id}: {left.messages} left, {group}")


class _Lines:
    """A printer of each step, once."""

    def __init__(self) -> None:
        self._last: Step | None = None

    def show(self, progress: Progress) -> None:
        """Print the step if it is a new one."""
        if progress.step is not self._last:
            self._last = progress.step
            print_line(_headline(progress), err=True)
