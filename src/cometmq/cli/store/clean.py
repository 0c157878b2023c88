"""``cometmq store clean``: remove expired files from a closed store."""

from pathlib import Path

import click

from cometmq.admin.times import parse_duration
from cometmq.cli.output import json_option, print_json, print_line
from cometmq.cli.store.options import (
    config_option,
    load_settings,
    path_argument,
    progress_bar,
    size_text,
)
from cometmq.store.offline.clean import Cleaned, Expired
from cometmq.store.offline.clean import clean as clean_store


@click.command()
@path_argument
@config_option
@click.option(
    "--older-than",
    metavar="TIME",
    help="Age of the CommitLog files to remove, by their last write: 72h, 3d, 30m.  [default: the settings' "
    "fileReservedTime, 72h]",
)
@click.option("--dry-run", is_flag=True, help="Change nothing, only print what would be removed.")
@json_option
def clean(path: Path, config: Path | None, older_than: str | None, dry_run: bool, as_json: bool) -> None:
    """Remove old messages from the closed store in directory PATH: whole CommitLog files, from the oldest on.

    The files of queues and index that only point to them are removed too. The newest file always stays. A
    store that was killed is recovered first.

    Exit codes: 0 done, also if nothing was old enough; 1 the store is open or damaged, and nothing was
    removed; 2 PATH is not a store, or its sizes cannot be determined.
    """
    older_than_ms = None if older_than is None else parse_duration("--older-than", older_than)
    verb = "would remove" if dry_run else "removed"

    def show(file: Expired) -> None:
        if not as_json:
            print_line(f"{verb}: {file.path}, {size_text(file.size)}")

    with progress_bar("recovering", as_json=as_json) as progress:
        cleaned = clean_store(
            path,
            load_settings(config, path),
            older_than_ms=older_than_ms,
            dry_run=dry_run,
            progress=progress,
            on_removed=show,
        )
    if dry_run:
        for file in cleaned.files:
            show(file)
    if as_json:
        print_json(_fields(path, cleaned, dry_run=dry_run))
    else:
        print_line(
            f"{path}: {verb} {len(cleaned.commit_log)} CommitLog, {len(cleaned.queue_files)} queue and "
            f"{len(cleaned.index_files)} index files, {size_text(cleaned.bytes)}; the log begins at "
            f"{cleaned.min_offset}"
        )


def _fields(path: Path, cleaned: Cleaned, *, dry_run: bool) -> dict[str, object]:
    return {
        "path": str(path),
        "dry_run": dry_run,
        "bytes": cleaned.bytes,
        "min_offset": cleaned.min_offset,
    } | {
        kind: [{"path": str(file.path), "size": file.size} for file in files]
        for kind, files in (
            ("commit_log", cleaned.commit_log),
            ("queue_files", cleaned.queue_files),
            ("index_files", cleaned.index_files),
        )
    }
