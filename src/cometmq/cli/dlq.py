"""``cometmq dlq``: the messages that consumer groups gave up."""

from collections.abc import Sequence
from contextlib import aclosing
from typing import Any, TextIO

import click

from cometmq.admin import dead_letters
from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.messages import ResendResult
from cometmq.admin.readable import message_fields, time_text
from cometmq.admin.times import HELP, TimeRange, parse_range
from cometmq.cli.cluster_session import run_in_cluster
from cometmq.cli.message import print_sent
from cometmq.cli.output import (
    json_option,
    namesrv_option,
    print_json,
    print_line,
    print_table,
)
from cometmq.errors import NotFound, PartlyResent, SettingsError
from cometmq.format.stored import with_readable_body
from cometmq.message import StoredMessage

time_option = click.option("--time", "time_range", metavar="TIME[..TIME]", help=HELP)


@click.group()
def dlq() -> None:
    """List, resend and export dead letters: messages that a group gave up after its retries."""


@dlq.command("list")
@click.argument("group", required=False)
@time_option
@click.option("--limit", type=click.IntRange(1), default=100, show_default=True, help="At most this many.")
@namesrv_option
@json_option
def list_letters(group: str | None, time_range: str | None, limit: int, namesrv: str, as_json: bool) -> None:
    """List the dead letters of GROUP, the oldest first; without GROUP, the groups that have any."""
    if group is None:
        found = run_in_cluster(namesrv, dead_letters.groups)
        if as_json:
            print_json([one._asdict() for one in found])
        else:
            rows = [(*one[:-1], time_text(one.last_time) if one.last_time else "-") for one in found]
            print_table(("group", "dead letters", "last one"), rows)
        return
    letters = run_in_cluster(namesrv, lambda cluster: _letters(cluster, group, _range(time_range), limit))
    if as_json:
        print_json(list(map(_plain, letters)))
        return
    shown = [
        (
            time_text(letter.store_time),
            letter.message_id,
            dead_letters.topic_of(letter),
            letter.tags or "-",
            " ".join(letter.keys) or "-",
            letter.reconsume_times,
        )
        for letter in letters
    ]
    print_table(("died", "id", "topic", "tags", "keys", "tries"), shown)


@dlq.command("resend")
@click.argument("group")
@click.option("--id", "ids", multiple=True, metavar="ID", help="The letter with this id; repeatable.")
@time_option
@click.option("--all", "everything", is_flag=True, help="All letters.")
@click.option("--to-topic", is_flag=True, help="To the topic, for all its groups, instead of GROUP alone.")
@namesrv_option
@json_option
def resend(
    group: str,
    ids: tuple[str, ...],
    time_range: str | None,
    everything: bool,
    to_topic: bool,
    namesrv: str,
    as_json: bool,
) -> None:
    """Send dead letters to GROUP again; their retries begin anew.

    The letters themselves stay until they expire: if they are resent twice, they are delivered twice.
    """
    if bool(ids) + (time_range is not None) + everything != 1:
        raise SettingsError("choose the letters: give one of --id, --time and --all")

    async def run(cluster: ClusterAdmin) -> list[ResendResult]:
        letters = await _letters(cluster, group, _range(time_range), None)
        known = {name for letter in letters for name in (letter.message_id, letter.offset_id)}
        if missing := [name for name in ids if name not in known]:
            raise NotFound(f"group {group} has no dead letter {', '.join(missing)}")
        chosen = [one for one in letters if not ids or one.message_id in ids or one.offset_id in ids]
        return await dead_letters.resend_all(cluster, group, chosen, to_topic=to_topic)

    try:
        sent = run_in_cluster(namesrv, run)
    except PartlyResent as error:
        _print_resent(error.sent, as_json=as_json)
        raise
    _print_resent(sent, as_json=as_json)


@dlq.command("export")
@click.argument("group")
@time_option
@click.option("--out", type=click.File("w"), default="-", help="Output file; by default standard output.")
@namesrv_option
def export(group: str, time_range: str | None, out: TextIO, namesrv: str) -> None:
    """Write the dead letters of GROUP as JSON, one per line, the oldest first."""

    async def run(cluster: ClusterAdmin) -> None:
        times = _range(time_range)
        walk = dead_letters.letters(cluster, group, begin=times.begin, end=times.end)
        async with aclosing(walk) as letters:
            async for letter in letters:
                print_json(_plain(letter), out)

    run_in_cluster(namesrv, run)


def _print_resent(sent: Sequence[ResendResult], *, as_json: bool) -> None:
    if as_json:
        print_json([one._asdict() for one in sent])
        return
    for one in sent:
        print_sent(one, as_json=False)
    print_line(f"{len(sent)} resent")


def _range(text: str | None) -> TimeRange:
    return TimeRange() if text is None else parse_range(text)


async def _letters(
    cluster: ClusterAdmin, group: str, times: TimeRange, limit: int | None
) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    walk = dead_letters.letters(cluster, group, begin=times.begin, end=times.end)
    async with aclosing(walk) as letters:
        async for letter in letters:
            found.append(letter)
            if len(found) == limit:
                break
    return found


def _plain(letter: StoredMessage) -> dict[str, Any]:
    return {"original_topic": dead_letters.topic_of(letter), **message_fields(with_readable_body(letter))}
