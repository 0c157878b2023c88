"""``cometmq spark find``: find messages by id, key, time, topic and tag, in many stores at once."""

from pathlib import Path

import click

from cometmq.cli.main import EXIT_FAILED, EXIT_NOT_FOUND
from cometmq.cli.output import json_option, print_line
from cometmq.cli.spark.options import master_option, start_spark, stores_argument, task_bar
from cometmq.cli.store.find import LIMIT, show, wanted_of, wanted_options


@click.command()
@stores_argument
@wanted_options
@click.option("--limit", type=click.IntRange(1), default=LIMIT, show_default=True, help="Per store.")
@click.option("--scan", is_flag=True, help="Read the whole logs instead of the indexes, which may be wrong.")
@master_option
@json_option
@click.pass_context
def find(
    context: click.Context,
    stores: tuple[Path, ...],
    message_id: str | None,
    key: str | None,
    topic: str | None,
    tag: str | None,
    time_range: str | None,
    limit: int,
    scan: bool,
    master: str,
    as_json: bool,
) -> None:
    """Find messages in the stores in the directories PATH, many at once; all conditions must hold.

    Exit codes: 0 found; 1 a store cannot be read; 3 not found; 2 the conditions cannot be used, or Spark is
    missing.
    """
    wanted = wanted_of(message_id, key, topic, tag, time_range)
    spark = start_spark(master)
    from cometmq.spark.jobs.find.find import find as find_in_stores  # noqa: PLC0415 - needs the extra

    with task_bar(as_json=as_json) as progress:
        all_hits = find_in_stores(spark, stores, wanted, limit=limit, use_index=not scan, progress=progress)
    for hits in all_hits:
        if hits.error:
            print_line(f"{hits.store}: {hits.error}", err=True)
        elif hits.found and not as_json:
            print_line(f"{hits.store}:")
        for found in hits.found:
            show(found, as_json=as_json)
    is_found = any(hits.found for hits in all_hits)
    if not is_found:
        print_line("not found", err=True)
    if any(hits.error for hits in all_hits):
        context.exit(EXIT_FAILED)
    elif not is_found:
        context.exit(EXIT_NOT_FOUND)
