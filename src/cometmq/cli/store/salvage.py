"""``cometmq store salvage``: copy what can be read of a damaged store to a new one."""

from pathlib import Path

import click

from cometmq.cli.output import json_option, print_json, print_line
from cometmq.cli.paths import NamedPath
from cometmq.cli.store.options import config_option, load_settings, path_argument, progress_bar, size_text
from cometmq.store.offline.salvage import Salvaged
from cometmq.store.offline.salvage import salvage as salvage_store


@click.command()
@path_argument
@click.option("--to", "target", required=True, type=NamedPath(), help="Directory of the new store.")
@config_option
@json_option
def salvage(path: Path, target: Path, config: Path | None, as_json: bool) -> None:
    """Copy every readable message of the store in directory PATH into a new, sound store.

    PATH is only read, and may be a store that no longer opens. Messages keep their queue offsets, so
    that committed offsets stay valid, and their places in the log, so that their ids stay valid.
    Losses are reported by file, byte and size, and by queue offsets; reads skip them. Tables in
    config/ are copied, from their backups if they are damaged; queues and index are rebuilt.

    Exit codes: 0 copied, whatever was lost; 1 PATH is open in another process, or the disk refuses; 2 PATH
    is not a store, its sizes cannot be determined, or the new directory is not empty, within PATH or around
    it.
    """
    with progress_bar("salvaging", as_json=as_json) as progress:
        salvaged = salvage_store(path, target, load_settings(config, path), progress=progress)
    if as_json:
        print_json(_fields(path, target, salvaged))
    else:
        _print(target, salvaged)


def _fields(path: Path, target: Path, salvaged: Salvaged) -> dict[str, object]:
    lost = [lost._asdict() | {"path": str(lost.path)} for lost in salvaged.lost]
    gaps = [gap._asdict() for gap in salvaged.gaps]
    return {"path": str(path), "to": str(target)} | salvaged._asdict() | {"lost": lost, "gaps": gaps}


def _print(target: Path, salvaged: Salvaged) -> None:
    for lost in salvaged.lost:
        print_line(f"lost: {lost.path}, byte {lost.position}, {lost.size} bytes: {lost.reason}")
    for gap in salvaged.gaps:
        last = gap.first + gap.missing - 1
        print_line(f"lost: {gap.topic}-{gap.queue_id}, queue offsets {gap.first} to {last}")
    for name in salvaged.lost_tables:
        print_line(f"lost: config/{name}")
    for what in salvaged.left_out:
        print_line(f"left out: {what}")
    print_line(f"{target}: copied {salvaged.messages} messages, {size_text(salvaged.bytes)} of log")
