"""``cometmq spark rebuild``: rebuild ConsumeQueues and index from the CommitLog, in parallel."""

from pathlib import Path

import click

from cometmq.cli.output import json_option
from cometmq.cli.spark.options import master_option, start_spark, task_bar
from cometmq.cli.store.options import config_option, load_settings, path_argument
from cometmq.cli.store.rebuild import show


@click.command()
@path_argument
@config_option
@master_option
@json_option
def rebuild(path: Path, config: Path | None, master: str, as_json: bool) -> None:
    """Rebuild consumequeue/ and index/ of the closed store in directory PATH from its CommitLog.

    The result is that of `cometmq store rebuild`, to the byte, made by many tasks at once. If it is killed,
    the old files are still there, and the next run continues. If the broker has its own messageDelayLevel,
    give --config: the due times of delayed messages are computed from it.

    Exit codes: 0 rebuilt, with damage in the log skipped and reported; 1 not rebuilt, and the old files are
    still there; 2 PATH is not a store, or its sizes cannot be determined, or Spark is missing.
    """
    spark = start_spark(master)
    from cometmq.spark.jobs.rebuild.rebuild import rebuild as rebuild_store  # noqa: PLC0415 - needs the extra

    with task_bar(as_json=as_json) as progress:
        rebuilt = rebuild_store(spark, path, load_settings(config, path), progress=progress)
    show(path, rebuilt, as_json=as_json)
