"""``cometmq offset``: show, reset, skip and clone the offsets of consumer groups."""

import time

import click

from cometmq.admin import offsets
from cometmq.admin.offsets import END, TO, OffsetChange, ResetTarget, parse_queue, parse_target
from cometmq.admin.readable import time_text
from cometmq.cli.cluster_session import run_in_cluster
from cometmq.cli.lag import beginning_lines, committed_text
from cometmq.cli.output import (
    json_option,
    namesrv_option,
    print_json,
    print_line,
    print_table,
)
from cometmq.errors import SettingsError

dry_run_option = click.option("--dry-run", is_flag=True, help="Only show what would change.")


@click.group()
def offset() -> None:
    """Show, reset, skip and clone the offsets of consumer groups."""


@offset.command("show")
@click.argument("group")
@click.option("--topic", help="Only this topic.")
@namesrv_option
@json_option
def show(group: str, topic: str | None, namesrv: str, as_json: bool) -> None:
    """Show the committed offsets of GROUP in each queue."""
    found = run_in_cluster(namesrv, lambda cluster: offsets.lag(cluster, group, topic))
    if as_json:
        queues = [queue._asdict() | {"lag": queue.lag, "ahead": queue.ahead} for queue in found.queues]
        print_json({"group": group, "queues": queues})
        return
    rows = [
        (
            *(queue.topic, queue.broker_name, queue.queue_id, queue.max_offset),
            *(committed_text(queue), queue.pulled),
            f"ahead by {queue.ahead}" if queue.ahead else queue.lag,
            time_text(queue.last_time) if queue.last_time else "-",
        )
        for queue in found.queues
    ]
    columns = ("topic", "broker", "queue", "end", "committed", "pulled", "lag", "last handled was stored")
    print_table(columns, rows)
    for line in beginning_lines(found.queues):
        print_line(line)


@offset.command("reset")
@click.argument("group")
@click.argument("topic")
@click.option("--to", metavar="WHERE", help=f"{TO}.")
@click.option("--to-offset", type=click.IntRange(0), help="This queue offset, instead of --to.")
@click.option("--queue", metavar="BROKER:ID", help="Only this queue.")
@dry_run_option
@namesrv_option
@json_option
def reset(
    group: str,
    topic: str,
    to: str | None,
    to_offset: int | None,
    queue: str | None,
    dry_run: bool,
    namesrv: str,
    as_json: bool,
) -> None:
    """Reset the offsets of GROUP in TOPIC, forwards or backwards.

    It may have running members: they continue at the new offsets by themselves.
    """
    if (to is None) == (to_offset is None):
        raise SettingsError("give either --to or --to-offset")
    target = ResetTarget(offset=to_offset) if to is None else parse_target(to, int(time.time() * 1000))
    only = None if queue is None else parse_queue(queue)
    _move(group, topic, target, only, dry_run=dry_run, namesrv=namesrv, as_json=as_json)


@offset.command("skip")
@click.argument("group")
@click.argument("topic")
@click.option("--queue", metavar="BROKER:ID", help="Only this queue.")
@dry_run_option
@namesrv_option
@json_option
def skip(group: str, topic: str, queue: str | None, dry_run: bool, namesrv: str, as_json: bool) -> None:
    """Set the offsets of GROUP in TOPIC to the end, so that it skips all present messages."""
    only = None if queue is None else parse_queue(queue)
    _move(group, topic, ResetTarget(time=END), only, dry_run=dry_run, namesrv=namesrv, as_json=as_json)


@offset.command("clone")
@click.argument("source")
@click.argument("target")
@click.option("--topic", help="Only this topic; by default all of SOURCE's topics except its retries.")
@namesrv_option
@json_option
def clone(source: str, target: str, topic: str | None, namesrv: str, as_json: bool) -> None:
    """Copy the offsets of the group SOURCE to the group TARGET, which must have no running members."""
    topics = run_in_cluster(namesrv, lambda cluster: offsets.clone(cluster, source, target, topic))
    if as_json:
        print_json({"source": source, "target": target, "topics": topics})
    else:
        print_line(f"group {target} has the offsets of {source} in {', '.join(topics)}")


def _move(
    group: str,
    topic: str,
    target: ResetTarget,
    queue: tuple[str, int] | None,
    *,
    dry_run: bool,
    namesrv: str,
    as_json: bool,
) -> None:
    moves = run_in_cluster(
        namesrv,
        lambda cluster: offsets.reset(cluster, group, topic, target, queue=queue, dry_run=dry_run),
    )
    if as_json:
        print_json({"group": group, "topic": topic, "done": not dry_run, "queues": list(map(_plain, moves))})
        return
    rows = [
        (move.queue.broker_name, move.queue.queue_id, "-" if move.before is None else move.before, move.after)
        for move in moves
    ]
    print_table(("broker", "queue", "before", "after"), rows)
    if dry_run:
        print_line("nothing was changed: --dry-run")


def _plain(move: OffsetChange) -> dict[str, object]:
    _, broker_name, queue_id = move.queue
    return {"broker_name": broker_name, "queue_id": queue_id, "before": move.before, "after": move.after}
