"""The guide's code runs, in the session of all Spark tests: a session of its own would take long."""

import re
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from tests.campaigns.spark.streams_query import TOO_SLOW
from tests.kit.pages import NAME_SERVER, README, ROOT, SPARK, blocks_of
from tests.live import BROKER, in_thread

from cometmq.blocking import PullConsumer
from cometmq.message import MessageQueue
from cometmq.spark import session_options
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.options import parse
from cometmq.store import Message, MessageStore

LETTERS = "%DLQ%billing"


@pytest.mark.timeout(600)  # each page is a dozen queries or streams, which Spark plans and starts one by one
@pytest.mark.parametrize("name", ["spark.md", "spark-streams.md"])
def test_what_the_guide_shows_is_what_happens(
    spark: SparkSession, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert spark.sparkContext.master == "local[2]"  # the one that the page's session() finds
    page = (ROOT / "docs" / "guide" / name).read_text()
    names: dict[str, object] = {"__name__": "page"}
    with in_thread(tmp_path / "store") as live:
        for block in blocks_of(page):
            code = block.code.replace(NAME_SERVER, live.name_server)
            code = re.sub(r'"lake/', f'"{tmp_path}/lake/', code)  # Spark's Java has a directory of its own
            run(code, block.line, names)
            printed = capsys.readouterr().out
            assert block.printed in (None, printed), f"line {block.line}"
            if "DeadLetter" in code:
                wait_for(LETTERS, live.name_server)
        if name == "spark.md":
            assert len(filled_queues("orders", live.name_server)) > 1, "a single task reads all"
    for setting in session_options(spark):
        spark.conf.unset(setting)


@pytest.mark.usefixtures("spark")
@pytest.mark.timeout(600)  # Spark's start, on a machine that is busy
def test_what_the_readme_shows_of_spark_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with MessageStore.open(tmp_path / "store") as store:
        store.append_messages(Message("orders", b"hello", tags="paid") for _ in range(3))
    blocks = [block for block in blocks_of(README.read_text()) if SPARK in block.code]
    assert len(blocks) == 1
    code = blocks[0].code.replace('"cometmq-data"', f'"{tmp_path}/store"')
    run(code, blocks[0].line, {"__name__": "page"})
    assert "|paid|    3|" in capsys.readouterr().out


def run(code: str, line: int, names: dict[str, object]) -> None:
    """Run a block; one of a stream again, if Spark's worker did not start in time: it goes on."""
    block = compile(code, f"the block at line {line}", "exec")
    try:
        exec(block, names)
    except StreamingQueryException as error:
        if TOO_SLOW not in str(error):
            raise
        exec(block, names)


def filled_queues(topic: str, name_server: str) -> list[MessageQueue]:
    with PullConsumer(name_server, "judge") as consumer:
        return [queue for queue in consumer.queues(topic) if consumer.max_offset(queue)]


def wait_for(topic: str, name_server: str) -> None:
    """Wait until the name server knows a topic that the broker has made."""
    there = {MessageQueue(topic, BROKER, 0)}
    with Cluster(parse({"namesrv": name_server, "subscribe": topic})) as cluster:
        assert there <= cluster.wait_for_queues(there)
