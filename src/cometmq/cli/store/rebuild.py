"""``cometmq store rebuild``: rebuild ConsumeQueues and index from the CommitLog."""

from pathlib import Path

import click

from cometmq.cli.output import json_option, print_json, print_line
from cometmq.cli.store.options import (
    config_option,
    load_settings,
    path_argument,
    progress_bar,
    size_text,
)
from cometmq.store.recovery.rebuild import Rebuilt
from cometmq.store.recovery.rebuild import rebuild as rebuild_store


@click.command()
@path_argument
@config_option
@json_option
def rebuild(path: Path, config: Path | None, as_json: bool) -> None:
    """Rebuild consumequeue/ and index/ of the closed store in directory PATH from its CommitLog.

    The new files replace the old ones when they are complete. If the old ones are gone, and the
    broker's settings differ from RocketMQ's defaults, give --config, since their sizes cannot be determined
    then. Give it also if the broker has its own messageDelayLevel: the due times of delayed messages are
    computed from it.

    Exit codes: 0 rebuilt, with damage in the log skipped and reported; 1 not rebuilt, and the old files are
    still there; 2 PATH is not a store, or its sizes cannot be determined.
    """
    with progress_bar("rebuilding", as_json=as_json) as progress:
        rebuilt = rebuild_store(path, load_settings(config, path), progress=progress)
    show(path, rebuilt, as_json=as_json)


def show(path: Path, rebuilt: Rebuilt, *, as_json: bool) -> None:
    """Print the result of a rebuild."""
    if as_json:
        print_json(_fields(path, rebuilt))
    else:
        _print(path, rebuilt)


def _fields(path: Path, rebuilt: Rebuilt) -> dict[str, object]:
    damages = [damage._asdict() | {"path": str(damage.path)} for damage in rebuilt.damages]
    gaps = [gap._asdict() for gap in rebuilt.gaps]
    fields: dict[str, object] = {"path": str(path)} | rebuilt._asdict() | {"damages": damages, "gaps": gaps}
    del fields["peak_bytes"]  # of a rebuild by Spark only, and a figure for its bench
    return fields


def _print(path: Path, rebuilt: Rebuilt) -> None:
    for damage in rebuilt.damages:
        print_line(f"damage: {damage.path}, byte {damage.position}, {damage.size} bytes: {damage.reason}")
    for gap in rebuilt.gaps:
        last = gap.first + gap.missing - 1
        print_line(f"lost: {gap.topic}-{gap.queue_id}, queue offsets {gap.first} to {last}")
    print_line(
        f"{path}: rebuilt {rebuilt.queues} queues and {rebuilt.index_files} index files "
        f"from {rebuilt.messages} messages, {size_text(rebuilt.bytes)} of log, "
        f"{rebuilt.duration_ms / 1000:.1f} s"
    )
    if rebuilt.delayed:
        print_line(
            f"the due times of {rebuilt.delayed} delayed messages were computed from messageDelayLevel = "
            f"{rebuilt.delay_levels}"
        )
