"""``cometmq spark archive``: write closed CommitLog files as Parquet, before retention removes them."""

from pathlib import Path

import click
import msgspec

from cometmq.cli.output import json_option, print_json, print_line
from cometmq.cli.paths import NamedPath
from cometmq.cli.spark.options import broker_option, master_option, start_spark, task_bar
from cometmq.cli.store.options import path_argument


@click.command()
@path_argument
@click.argument("target", type=NamedPath(file_okay=False))
@broker_option
@master_option
@json_option
def archive(path: Path, target: Path, broker: str | None, master: str, as_json: bool) -> None:
    """Archive the closed CommitLog files of the store in directory PATH as Parquet files under TARGET.

    TARGET is a directory that all executors see at this path, or an address, as s3://bucket/archive.
    A file is closed once messages lie in a later one. Files that TARGET has are not archived again: run it
    more often than retention removes files, also while a broker serves the store. A run that was killed is
    continued by the next one; each Parquet file is complete or not there. Use a TARGET of its own for each
    store.

    Exit codes: 0 archived, also if there was nothing new; 1 not archived, and the next run continues, or
    another job fills TARGET; 2 PATH is not a store, or TARGET cannot be used, or Spark is missing.
    """
    spark = start_spark(master)
    from cometmq.spark.files.remote import path_of  # noqa: PLC0415 - as above
    from cometmq.spark.jobs.export.archive import archive as archive_store  # noqa: PLC0415 - needs the extra

    with task_bar(as_json=as_json) as progress:
        done = archive_store(spark, path, target, broker=broker, progress=progress)
    if as_json:
        print_json(
            {"path": str(path_of(path)), "target": str(path_of(target))} | msgspec.structs.asdict(done)
        )
        return
    if done.missing:
        print_line(f"lost: {done.missing} bytes of log were removed before they were archived")
    if done.damages:
        print_line(f"damaged: {done.damages} stretches of the log are not messages")
    print_line(f"{path_of(target)}: {done.messages} messages of {done.files} files, up to offset {done.end}")
