"""``cometmq spark verify``: check every byte of many stores."""

from pathlib import Path

import click
import msgspec

from cometmq.cli.output import json_option, print_json, print_line, print_table
from cometmq.cli.spark.options import master_option, start_spark, stores_argument, task_bar
from cometmq.cli.store.options import config_option, load_settings, size_text

COLUMNS = ("store", "state", "messages", "log", "queues", "index entries", "damages")


@click.command()
@stores_argument
@config_option
@master_option
@json_option
@click.pass_context
def verify(
    context: click.Context, stores: tuple[Path, ...], config: Path | None, master: str, as_json: bool
) -> None:
    """Check the stores in the directories PATH, many at once; nothing is written.

    Each is checked as by `cometmq store verify`: every record, and ConsumeQueues and index against the
    CommitLog and the reverse. --json prints a document for each store, with all findings.

    Exit codes: 0 all are sound, or the next start will recover them; 1 one is damaged, or cannot be read;
    2 a path or the settings cannot be used, or Spark is missing.
    """
    spark = start_spark(master)
    from cometmq.spark.jobs.verify import verify as verify_stores  # noqa: PLC0415 - needs the extra

    with task_bar(as_json=as_json) as progress:
        checked = verify_stores(spark, stores, load_settings(config, *stores), progress=progress)
    if as_json:
        for store in checked:
            print_json(msgspec.structs.asdict(store))
    else:
        for store in checked:
            if store.error:
                print_line(f"{store.store}: {store.error}")
            for found in store.findings:
                place = "" if found.position is None else f", byte {found.position}"
                print_line(f"{found.severity}: {found.path}{place}: {found.what}")
        print_table(
            COLUMNS,
            [
                (
                    store.store,
                    store.state,
                    store.messages,
                    size_text(store.bytes),
                    store.queues,
                    store.index_entries,
                    store.damages,
                )
                for store in checked
            ],
        )
    if any(store.is_bad for store in checked):
        context.exit(1)
