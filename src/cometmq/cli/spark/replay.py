"""``cometmq spark replay``: send messages from files to a running cluster again."""

from pathlib import Path

import click

from cometmq.admin.times import HELP, parse_range
from cometmq.cli.access import access
from cometmq.cli.output import json_option, namesrv_option, print_json, print_line
from cometmq.cli.spark.options import master_option, start_spark, task_bar
from cometmq.cli.store.options import path_argument


@click.command()
@path_argument
@click.option(
    "--rate", type=click.IntRange(1), required=True, help="Messages per second, of all tasks together."
)
@click.option("--topic", "topics", multiple=True, help="Topic; repeatable; by default all.")
@click.option("--tag", "tags", multiple=True, help="Tag; repeatable; by default all.")
@click.option("--time", "time_range", metavar="TIME[..TIME]", help=HELP)
@click.option("--to", metavar="TOPIC", help="Send all to this topic, not each to its own.")
@namesrv_option
@master_option
@json_option
def replay(
    path: Path,
    rate: int,
    topics: tuple[str, ...],
    tags: tuple[str, ...],
    time_range: str | None,
    to: str | None,
    namesrv: str,
    master: str,
    as_json: bool,
) -> None:
    """Send messages of the store, archive or export in directory PATH to brokers again.

    The messages keep their properties, keys, tags and the order of each queue. Run it again after a failure:
    each message has the same IDEMPOTENCE_KEY as before, by which brokers or consumers recognize copies.

    Exit codes: 0 sent; 1 not all sent; 2 PATH is not a store, an option cannot be used, or Spark is missing.
    """
    times = parse_range(time_range) if time_range is not None else ()
    spark = start_spark(master)
    from cometmq.spark.files.remote import path_of  # noqa: PLC0415 - as above
    from cometmq.spark.jobs.replay import ReplayFilter  # noqa: PLC0415 - needs the extra
    from cometmq.spark.jobs.replay import replay as replay_messages  # noqa: PLC0415 - as above

    wanted = ReplayFilter(frozenset(topics) or None, frozenset(tags) or None, *times)
    with task_bar(as_json=as_json) as progress:
        sent = replay_messages(
            spark, path, namesrv, rate=rate, wanted=wanted, topic=to, progress=progress, **access()
        )
    if as_json:
        print_json({"path": str(path_of(path)), "messages": sent})
        return
    for topic, messages in sent.items():
        print_line(f"{topic}: {messages} messages")
    print_line(f"{path_of(path)}: {sum(sent.values())} messages sent")
