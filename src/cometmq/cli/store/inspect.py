"""``cometmq store inspect``: a store file field by field, or an overview of a store directory."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click

from cometmq.admin.readable import time_text
from cometmq.cli.output import (
    json_option,
    print_json,
    print_line,
    print_table,
    print_text,
)
from cometmq.cli.store.options import (
    config_option,
    finding_fields,
    load_settings,
    path_argument,
    size_text,
)
from cometmq.errors import SettingsError
from cometmq.format.java import fastjson
from cometmq.io.files import Disk
from cometmq.store.directory import StoreDirectory
from cometmq.store.inspect import FileView, InspectRow, Kind, Summary, open_file, summarize

LIMIT: Final = 20
NOT_COUNTED: Final = ("header", "slot", "slots")
TABULAR: Final = ("entry", "filler", "slot")


@click.command()
@path_argument
@click.option(
    "--at",
    metavar="OFFSET",
    type=click.IntRange(0),
    help="Begin at this CommitLog offset, queue offset or number of an index entry.",
)
@click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True, help="At most this many.")
@config_option
@json_option
def inspect(path: Path, at: int | None, limit: int, config: Path | None, as_json: bool) -> None:
    """Show the store file PATH field by field, with positions, or an overview of the store directory PATH.

    It shows CommitLog, ConsumeQueue and index files, checkpoint and tables, also copies of them
    elsewhere. Damaged bytes are shown as such, with what lies behind them.

    Exit codes: 0 shown, damaged or not; 2 PATH is not a store file or directory, or has no such OFFSET.
    """
    layer = Disk()
    if not layer.exists(path):
        raise SettingsError(f"{path}: no such file or directory: give a store file or directory")
    is_store = layer.is_directory(path)
    settings = load_settings(config, *([path] if is_store else []))
    if is_store:
        if at is not None:
            raise SettingsError(f"--at {at}: {path} is a directory: give one of its files")
        with StoreDirectory(path, settings, layer) as store:
            _show_summary(summarize(store), as_json=as_json)
        return
    with open_file(layer, path, settings) as file:
        if not as_json:
            offset = f", begins at offset {file.base_offset}" if file.base_offset else ""
            print_line(f"{path}: {file.kind.value}, {file.size} bytes{offset}")
        rows = _Limited(file.rows(at), limit)
        if as_json:
            for row in rows:
                print_json(_row_fields(row))
        else:
            _print_rows(rows, file.base_offset)
            if rows.following is not None and (place := _place(file, rows.following)) is not None:
                print_line(f"more: --at {place}")


class _Limited:
    """Rows up to a limit.

    Attributes:
        following: the first row beyond the limit; None if there is none.
    """

    def __init__(self, rows: Iterator[InspectRow], limit: int) -> None:
        self.following: InspectRow | None = None
        self._rows = rows
        self._limit = limit

    def __iter__(self) -> Iterator[InspectRow]:
        left = self._limit
        for row in self._rows:
            if row.what not in NOT_COUNTED:
                if not left:
                    self.following = row
                    return
                left -= 1
            yield row


def _print_rows(rows: _Limited, base_offset: int) -> None:
    """Print entries as tables, and other rows as blocks."""
    table: list[InspectRow] = []
    for row in rows:
        if table and (row.what not in TABULAR or _columns(row) != _columns(table[0])):
            _print_table(table)
            table = []
        if row.what in TABULAR:
            table.append(row)
        else:
            _print_block(row, base_offset)
    if table:
        _print_table(table)


def _columns(row: InspectRow) -> list[str]:
    return [field.name for field in row.fields]


def _print_table(rows: list[InspectRow]) -> None:
    columns = ["position", *_columns(rows[0]), "note"]
    print_table(
        columns,
        [[row.position, *(field.text or field.value for field in row.fields), _note(row)] for row in rows],
    )


def _print_block(row: InspectRow, base_offset: int) -> None:
    if row.what == "table":
        print_text(row.fields[0].text)
        return
    offset = f" (offset {base_offset + row.position})" if base_offset else ""
    note = f": {row.note}" if row.note else ""
    print_line(f"{row.what} at {row.position}{offset}, {row.size} bytes{note}")
    for field in row.fields:
        print_line(f"{field.position:>14}  {field.name:<28} {field.text or field.value}")


def _note(row: InspectRow) -> str:
    return row.note if row.what in ("entry", "slot") else f"{row.what}: {row.note}"


def _row_fields(row: InspectRow) -> dict[str, Any]:
    fields = [
        {"position": field.position, "name": field.name, "value": _plain(field.value)} for field in row.fields
    ]
    return {"what": row.what, "position": row.position, "size": row.size, "note": row.note, "fields": fields}


def _plain(value: Any) -> Any:
    """Replace names of objects that JSON does not know by their fastjson text."""
    if isinstance(value, dict):
        return {
            name if isinstance(name, str) else fastjson.dumps(name): _plain(member)
            for name, member in value.items()
        }
    return [_plain(member) for member in value] if isinstance(value, list) else value


def _place(file: FileView, row: InspectRow) -> int | None:
    """Return the value of --at for beginning at ``row``."""
    if file.kind is Kind.COMMIT_LOG:
        return file.base_offset + row.position
    named = {field.name: field.value for field in row.fields}
    place: int | None = named.get("queue_offset", named.get("number"))
    return place


def _show_summary(summary: Summary, *, as_json: bool) -> None:
    if as_json:
        checkpoint = summary.checkpoint._asdict() if summary.checkpoint else None
        lists = {
            "topics": [line._asdict() for line in summary.topics],
            "index_files": [line._asdict() for line in summary.index_files],
            "findings": [finding_fields(finding) for finding in summary.findings],
        }
        print_json(summary._asdict() | {"root": str(summary.root), "checkpoint": checkpoint} | lists)
        return
    holder = f"open in process {summary.holder}" if summary.holder else ""
    state = "was closed" if summary.was_closed else "was not closed, the next start recovers it"
    print_line(f"{summary.root}: {holder or state}")
    size = summary.log_end - summary.log_begin
    print_line(
        f"CommitLog: {summary.log_files} files of {size_text(summary.log_file_size)}, "
        f"offsets {summary.log_begin} to {summary.log_end} ({size_text(size)})"
    )
    if summary.last_time:
        print_line(f"messages stored from {time_text(summary.first_time)} to {time_text(summary.last_time)}")
    if summary.checkpoint is not None:
        physic, logics = summary.checkpoint[:2]
        print_line(f"checkpoint: CommitLog {time_text(physic)}, ConsumeQueues {time_text(logics)}")
    print_line(f"tables: {', '.join(summary.tables) or 'none'}")
    if summary.topics:
        print_table(("topic", "queues", "messages"), summary.topics)
    if summary.index_files:
        print_table(
            ("index file", "from", "to", "entries", "room"),
            [
                (
                    line.name,
                    time_text(line.begin_time),
                    time_text(line.end_time),
                    line.entries,
                    line.entries_max,
                )
                for line in summary.index_files
            ],
        )
    for finding in summary.findings:
        print_line(f"{finding.severity.value}: {finding}")
