"""``cometmq spark``: jobs on store files, on one machine or a Spark cluster."""

import click

from cometmq.cli.spark.archive import archive
from cometmq.cli.spark.export import export
from cometmq.cli.spark.find import find
from cometmq.cli.spark.rebuild import rebuild
from cometmq.cli.spark.replay import replay
from cometmq.cli.spark.report import report
from cometmq.cli.spark.verify import verify


@click.group()
def spark() -> None:
    """Run jobs on store directories with Spark, for stores that take one machine too long.

    Each command runs on this machine unless --master names a cluster, whose executors must see the files at
    the same paths. A job that was killed continues when it is run again. Needs the extra "spark".
    """


for command in (rebuild, verify, find, export, archive, report, replay):
    spark.add_command(command)
