"""``cometmq message``: find and print messages on running brokers, resend them, see what waits."""

import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, Final

import click

from cometmq.admin import messages
from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.messages import Handled, ResendResult
from cometmq.admin.readable import message_fields, time_text
from cometmq.admin.times import HELP, TimeRange, parse_range
from cometmq.admin.waiting import READ_MAX
from cometmq.admin.waiting import waiting as find_waiting
from cometmq.cli.cluster_session import run_in_cluster
from cometmq.cli.consume import check_tags
from cometmq.cli.main import EXIT_FAILED, EXIT_NOT_FOUND
from cometmq.cli.output import (
    exit_if_troubled,
    json_option,
    namesrv_option,
    print_fields,
    print_json,
    print_line,
    print_message,
    print_table,
)
from cometmq.cluster.waiting import LATER, SPANS_MS, WaitingKind
from cometmq.errors import SettingsError
from cometmq.format.stored import with_readable_body
from cometmq.message import StoredMessage
from cometmq.wire.bodies.running import ConsumeResult

LIMIT: Final = 32


@click.group()
def message() -> None:
    """Find and print messages on running brokers, have them handled again, see what waits."""


@message.command("find")
@click.option("--id", "message_id", metavar="ID", help="Offset id, or the producer's unique id with --topic.")
@click.option("--key", help="One of the message's keys; with --topic.")
@click.option("--topic", help="Topic to search.")
@click.option("--time", "time_range", metavar="TIME[..TIME]", help=HELP)
@click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True, help="At most this many.")
@namesrv_option
@json_option
def find(
    message_id: str | None,
    key: str | None,
    topic: str | None,
    time_range: str | None,
    limit: int,
    namesrv: str,
    as_json: bool,
) -> None:
    """Find messages by id, by key or by time, and print all their fields.

    By id and by key the newest come first, by time the oldest.
    """
    times = TimeRange() if time_range is None else parse_range(time_range)
    if message_id is not None and key is None and time_range is None:
        found = run_in_cluster(namesrv, lambda cluster: messages.by_id(cluster, message_id, topic))
    elif topic is None or message_id is not None or (key is None and time_range is None):
        raise SettingsError("give --id, or --topic with --key, --time or both")
    elif key is not None:
        found = run_in_cluster(
            namesrv,
            lambda cluster: _first_of(
                messages.by_key(cluster, topic, key, begin=times.begin, end=times.end, limit=limit), limit
            ),
        )
    else:
        found = run_in_cluster(
            namesrv, lambda cluster: _first_by_time(cluster, topic, times, "*", None, limit)
        )
    for one in found[:limit]:
        _show(one, as_json=as_json)
    _exit_if_empty(found)


@message.command("print")
@click.argument("topic")
@click.option("--time", "time_range", metavar="TIME[..TIME]", help=HELP)
@click.option("--tags", default="*", show_default=True, help="Tags joined by ||.")
@click.option(
    "--queue", "queue_id", type=click.IntRange(0), help="Only the queue with this id, of each broker."
)
@click.option("--limit", type=click.IntRange(1), default=1_000, show_default=True, help="At most this many.")
@namesrv_option
@json_option
def print_messages(
    topic: str,
    time_range: str | None,
    tags: str,
    queue_id: int | None,
    limit: int,
    namesrv: str,
    as_json: bool,
) -> None:
    """Print the messages of TOPIC, one per line, in the order of their store times."""
    times = TimeRange() if time_range is None else parse_range(time_range)
    check_tags(tags)
    found = run_in_cluster(
        namesrv, lambda cluster: _first_by_time(cluster, topic, times, tags, queue_id, limit)
    )
    for one in found:
        print_message(with_readable_body(one), as_json=as_json)
    _exit_if_empty(found)


@message.command("resend")
@click.argument("message_id", metavar="ID")
@click.option("--topic", help="The message's topic; needed unless ID is its offset id.")
@click.option("--group", help="Ask a member of this group to handle it now, and print the result.")
@click.option("--client", "client_id", metavar="CLIENT_ID", help="With --group: this member.")
@click.option("--to", metavar="TOPIC", help="Send it to this topic as a new message.")
@namesrv_option
@json_option
@click.pass_context
def resend(
    context: click.Context,
    message_id: str,
    topic: str | None,
    group: str | None,
    client_id: str | None,
    to: str | None,
    namesrv: str,
    as_json: bool,
) -> None:
    """Redeliver the message ID, to a consumer directly or by sending it to a topic.

    Exit code 1 if the consumer could not handle it. No offset changes.
    """
    if (group is None) == (to is None):
        raise SettingsError("give either --group GROUP or --to TOPIC")

    async def again(cluster: ClusterAdmin) -> Handled | ResendResult:
        found = (await messages.by_id(cluster, message_id, topic))[0]
        if group is not None:
            return await messages.consume_directly(cluster, group, found, client_id)
        assert to is not None
        return await messages.send_again(cluster, found, to)

    result = run_in_cluster(namesrv, again)
    if isinstance(result, ResendResult):
        print_sent(result, as_json=as_json)
    elif not _print_handled(result, as_json=as_json):
        context.exit(EXIT_FAILED)


@message.command("waiting")
@click.option("--topic", help="Only messages for this topic.")
@click.option(
    "--kind",
    "kinds",
    type=click.Choice([kind.value for kind in WaitingKind]),
    multiple=True,
    help="Only these; may be repeated.",
)
@click.option(
    "--read", "read_max", type=click.IntRange(1), default=READ_MAX, show_default=True,
    help="Read at most this many records of each queue in which brokers keep them.",
)  # fmt: skip
@namesrv_option
@json_option
def waiting(topic: str | None, kinds: Sequence[str], read_max: int, namesrv: str, as_json: bool) -> None:
    """Show how many messages wait, for what, and when they are due.

    Delayed and timed messages are delivered then. Popped ones are held by consumers, and handed out again if
    they are not acknowledged by then. Half ones are in a transaction, whose producer may be asked from then.
    """
    now_ms = int(time.time() * 1000)
    chosen = [WaitingKind(kind) for kind in kinds] or list(WaitingKind)
    found = run_in_cluster(
        namesrv,
        lambda cluster: find_waiting(cluster, now_ms=now_ms, topic=topic, kinds=chosen, read_max=read_max),
    )
    if as_json:
        print_json(
            {
                "waiting": [line._asdict() for line in found.lines],
                "unread": [one._asdict() for one in found.unread],
            }
        )
        exit_if_troubled(found.troubles)
        return
    rows = [
        (
            line.kind,
            line.topic,
            line.group or "-",
            line.message_count,
            *line.due.values(),
            time_text(line.last_due_ms),
        )
        for line in found.lines
    ]
    print_table(("kind", "topic", "group", "waiting", *SPANS_MS, LATER, "last due"), rows)
    for one in found.unread:
        print_line(
            f"{one.record_count} records of {one.topic} on {one.broker_name} were not read: raise --read"
        )
    exit_if_troubled(found.troubles)


def print_sent(sent: ResendResult, *, as_json: bool) -> None:
    """Print where a message was stored."""
    if as_json:
        print_json(sent._asdict())
    else:
        print_line(f"{sent.topic}: {sent.broker_name} queue {sent.queue_id} offset {sent.queue_offset}")


async def _first_by_time(
    cluster: ClusterAdmin, topic: str, times: TimeRange, tags: str, queue_id: int | None, limit: int
) -> list[StoredMessage]:
    """Return the first messages in a range of time."""
    walk = messages.by_time(cluster, topic, begin=times.begin, end=times.end, tags=tags, queue_id=queue_id)
    return await _first_of(walk, limit)


async def _first_of(walk: AsyncGenerator[StoredMessage], limit: int) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    async with aclosing(walk) as all_of_them:
        async for one in all_of_them:
            found.append(one)
            if len(found) == limit:
                break
    return found


def _show(stored: StoredMessage, *, as_json: bool) -> None:
    one = with_readable_body(stored)
    fields: dict[str, Any] = dict(message_fields(one))
    if as_json:
        print_json(fields)
    else:
        print_fields(fields, one.body, more=": --json prints all")


def _exit_if_empty(found: Sequence[StoredMessage]) -> None:
    if not found:
        print_line("not found", err=True)
        click.get_current_context().exit(EXIT_NOT_FOUND)


def _print_handled(handled: Handled, *, as_json: bool) -> bool:
    """Print a member's result for a message; return whether it handled the message."""
    outcome = handled.outcome
    good = outcome.result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT)
    if as_json:
        print_json(
            {
                "client_id": handled.client_id,
                "handled": good,
                "result": outcome.result,
                "remark": outcome.remark,
                "spent_ms": outcome.spent_ms,
            }
        )
    else:
        result = outcome.result.value if outcome.result is not None else "no result reported"
        why = f": {outcome.remark}" if outcome.remark else ""
        print_line(f"{handled.client_id}: {result} in {outcome.spent_ms} ms{why}")
    return good
