"""``cometmq spark export``: write messages to Parquet files, incrementally."""

from pathlib import Path
from typing import Final

import click
import msgspec

from cometmq.cli.output import json_option, print_json, print_line
from cometmq.cli.paths import NamedPath
from cometmq.cli.spark.options import broker_option, master_option, start_spark, task_bar
from cometmq.cli.store.options import path_argument

KINDS: Final = ("parquet", "delta")


@click.command()
@path_argument
@click.argument("target", type=NamedPath(file_okay=False))
@click.option("--topic", "topics", multiple=True, help="Topic; repeatable; by default all.")
@click.option("--column", "columns", multiple=True, help="Column; repeatable; by default all.")
@click.option(
    "--format",
    "kind",
    type=click.Choice(KINDS),
    default=KINDS[0],
    show_default=True,
    help="Format of TARGET.",
)
@click.option(
    "--storage-option",
    "storage_options",
    metavar="NAME=VALUE",
    multiple=True,
    help="Option of Delta's for the file system of TARGET, as AWS_REGION=eu-west-1; repeatable.",
)
@broker_option
@master_option
@json_option
def export(
    path: Path,
    target: Path,
    topics: tuple[str, ...],
    columns: tuple[str, ...],
    kind: str,
    storage_options: tuple[str, ...],
    broker: str | None,
    master: str,
    as_json: bool,
) -> None:
    """Export the messages of the store in directory PATH to files under TARGET, by topic and day.

    TARGET is a directory that all executors see at this path, or an address, as s3://bucket/exported.
    Messages that an earlier run with this TARGET exported are not exported again: run it as often as you
    like, also while a broker serves the store. A run that was killed is continued by the next one.

    Any tool can read Parquet files; readers of a Delta table ("delta", which needs the extra of this name)
    see a round of a run, 8 GiB of the log or more, completely or not at all.

    Exit codes: 0 exported, also if there was nothing new; 1 not exported, and the next run continues, or
    another job fills TARGET; 2 PATH is not a store, or a name or TARGET cannot be used, or Spark is missing.
    """
    options = _options(storage_options)
    if options and kind != "delta":
        raise click.UsageError("--storage-option is for --format delta: fsspec has options of its own")
    spark = start_spark(master)
    from cometmq.spark.files.remote import path_of  # noqa: PLC0415 - as above
    from cometmq.spark.jobs.export.export import export as export_store  # noqa: PLC0415 - needs the extra

    with task_bar(as_json=as_json) as progress:
        done = export_store(
            spark,
            path,
            target,
            topics=topics or None,
            columns=columns or None,
            broker=broker,
            as_delta=options or kind == "delta",
            progress=progress,
        )
    if as_json:
        print_json(
            {"path": str(path_of(path)), "target": str(path_of(target))} | msgspec.structs.asdict(done)
        )
        return
    for topic, messages in done.messages.items():
        print_line(f"{topic}: {messages} messages")
    if done.missing:
        print_line(f"lost: {done.missing} bytes of log were removed before they were exported")
    new = f"{sum(done.messages.values())} new messages, from offset {done.begin} to {done.next}"
    print_line(f"{path_of(target)}: {new}")


def _options(texts: tuple[str, ...]) -> dict[str, str]:
    """Split options at their first equals sign. Raises UsageError if one has none."""
    options = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals):
            raise click.UsageError(f"--storage-option {text}: write NAME=VALUE")
        options[name] = value
    return options
