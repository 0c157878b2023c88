"""``cometmq spark report``: counts, sizes, latencies, hot keys and queues, and lags of many stores."""

from pathlib import Path

import click

from cometmq.cli.output import json_option, print_json, print_line, print_table
from cometmq.cli.paths import NamedPath
from cometmq.cli.spark.options import master_option, start_spark, stores_argument, task_bar
from cometmq.cli.store.options import size_text

COLUMNS = (
    "topic",
    "messages",
    "log",
    "body p50",
    "p99",
    "latency p50, ms",
    "p99",
    "keys",
    "on many",
    "hot key",
    "hot queue",
)
LAG_COLUMNS = ("group", "topic", "lag", "store")


@click.command()
@stores_argument
@click.option(
    "--html",
    type=NamedPath(dir_okay=False, is_local=True),
    help="Write a page with charts to this file.",
)
@click.option("--title", help="Title of the page; by default the names of the stores' folders.")
@click.option("--hot", type=click.IntRange(0), default=10, show_default=True, help="Most hot keys per topic.")
@master_option
@json_option
def report(
    stores: tuple[Path, ...], html: Path | None, title: str | None, hot: int, master: str, as_json: bool
) -> None:
    """Report on the stores in the directories PATH: by topic, queue, time and key; and lags.

    It prints tables of topics and lags, or with --json a document with everything. Sizes and latencies, from
    born time to store time, have percentiles. "On many" is the number of keys that more than one message has.
    A key is hot with 100 messages or more, if at least 1 % of its topic's messages have it and 10 times as
    many as have a key on average. A queue is hot with 100 messages or more, if it has 3 times as many as the
    other queues of its topic in the store on average. Lags are those of the stores' consumerOffset.json.
    Brokers may serve the stores meanwhile; damage is skipped and logged.

    Exit codes: 0 reported; 1 a file cannot be read or written; 2 a PATH is not a store, or Spark is missing.
    """
    spark = start_spark(master)
    from cometmq.spark.jobs.report.page import page  # noqa: PLC0415 - as above
    from cometmq.spark.jobs.report.report import report as report_stores  # noqa: PLC0415 - needs the extra

    with task_bar(as_json=as_json) as progress:
        found = report_stores(spark, stores, hot_keys=hot, progress=progress)
    if html is not None:
        html.write_text(page(found, title), encoding="utf-8")
    if as_json:
        print_json(found)
        return
    print_table(
        COLUMNS,
        [
            (
                *(one.topic, one.messages, size_text(one.bytes), one.body_bytes.p50, one.body_bytes.p99),
                *(one.latency_ms.p50, one.latency_ms.p99, one.keys, one.duplicate_keys),
                next((f"{key.key} ({key.messages})" for key in one.hot_keys), "-"),
                next((f"{queue.queue_id} ({queue.messages})" for queue in one.hot_queues), "-"),
            )
            for one in found.topics
        ],
    )
    if found.lags:
        print_line()
        print_table(LAG_COLUMNS, [(lag.group, lag.topic, lag.messages, lag.store) for lag in found.lags])
