"""``cometmq store find``: find messages by id, key, time, topic and tag in a store, without a broker."""

import sys
from itertools import islice
from pathlib import Path
from typing import Final

import click

from cometmq.admin.readable import message_fields
from cometmq.admin.times import HELP, parse_range
from cometmq.cli.access import together
from cometmq.cli.main import EXIT_NOT_FOUND
from cometmq.cli.output import (
    json_option,
    print_fields,
    print_json,
    print_line,
)
from cometmq.cli.paths import NamedPath
from cometmq.cli.store.options import config_option, load_settings, path_argument, progress_bar
from cometmq.errors import FormatError, SettingsError
from cometmq.format.stored import stored_message
from cometmq.format.sys_flag import COMPRESSED
from cometmq.message import StoredMessage
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.finding import Severity
from cometmq.store.offline.find import FindQuery, Found
from cometmq.store.offline.find import find as find_messages

LIMIT: Final = 32

wanted_options = together(
    click.option("--id", "message_id", metavar="ID", help="Offset id, or the producer's unique id."),
    click.option("--key", help="One of the message's keys."),
    click.option("--topic", help="Topic; makes a search by key or id faster."),
    click.option("--tag", help="Tag."),
    click.option("--time", "time_range", metavar="TIME[..TIME]", help=HELP),
)
"""Adds the options of the conditions that messages must meet: see ``wanted_of``."""


def wanted_of(
    message_id: str | None, key: str | None, topic: str | None, tag: str | None, time_range: str | None
) -> FindQuery:
    """Build the conditions from the options. Raises SettingsError if there are none."""
    times = parse_range(time_range) if time_range is not None else ()
    wanted = FindQuery(message_id, key, topic, tag, *times)
    if wanted == FindQuery():
        raise SettingsError("no condition: give --id, --key, --topic, --tag or --time")
    return wanted


@click.command()
@path_argument
@wanted_options
@click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True, help="At most this many.")
@click.option("--scan", is_flag=True, help="Read the whole log instead of the index, which may be wrong.")
@click.option("--body-out", type=NamedPath(dir_okay=False), help="Write the body to a file.")
@config_option
@json_option
@click.pass_context
def find(
    context: click.Context,
    path: Path,
    message_id: str | None,
    key: str | None,
    topic: str | None,
    tag: str | None,
    time_range: str | None,
    limit: int,
    scan: bool,
    body_out: Path | None,
    config: Path | None,
    as_json: bool,
) -> None:
    """Find messages in the store in directory PATH, which is only read; all conditions must hold.

    Exit codes: 0 found; 3 not found; 2 the conditions cannot be used, or PATH is not a store.
    """
    wanted = wanted_of(message_id, key, topic, tag, time_range)
    with StoreDirectory(path, load_settings(config, path)) as store:
        for finding in store.findings:
            if finding.severity is not Severity.RECOVERY:
                print_line(f"left out: {finding}", err=True)
        with progress_bar("searching", as_json=as_json) as progress:
            messages = find_messages(store, wanted, use_index=not scan, progress=progress)
            found = list(islice(messages, min(limit, sys.maxsize) if body_out is None else 2))
    if body_out is not None and found:
        _write_body(found, body_out)
    for message in found:
        show(message, as_json=as_json)
    if not found:
        print_line("not found", err=True)
        context.exit(EXIT_NOT_FOUND)


def _write_body(found: list[Found], target: Path) -> None:
    if len(found) > 1:
        raise SettingsError("--body-out writes one message, but several were found: choose one by --id")
    target.write_bytes(_message(found[0])[0].body)


def show(found: Found, *, as_json: bool) -> None:
    """Print a message."""
    message, damage = _message(found)
    fields = dict(message_fields(message))
    if damage:
        fields["damage"] = damage
    if as_json:
        print_json(fields)
    else:
        print_fields(fields, message.body, more=": --body-out FILE")


def _message(found: Found) -> tuple[StoredMessage, str]:
    """Return the message and what is wrong with it; a body that cannot be decompressed stays as stored."""
    try:
        return stored_message(found.record), found.damage
    except FormatError as error:
        record = found.record._replace(sys_flag=found.record.sys_flag & ~COMPRESSED)
        return stored_message(record), found.damage or str(error)
