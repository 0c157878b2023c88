"""The guide's page on Spark Connect, with a server in the session that all tests share."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.campaigns.spark.connect import run_page
from tests.campaigns.spark.standalone import HOST
from tests.live import in_thread

from cometmq.blocking import Producer, PullConsumer
from cometmq.message import Message
from cometmq.net.address import free_port

PATIENCE_S = 300
SPEC = """
name: copying
storage: file://{folder}/storage
libraries:
  - glob:
      include: transformations/**
"""
TRANSFORMATIONS = """
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

dp.create_sink("copies", "rocketmq", {{"namesrv": "{namesrv}", "topic": "copies"}})


@dp.append_flow(target="copies")
def copy_orders():
    reader = SparkSession.active().readStream.format("rocketmq").option("namesrv", "{namesrv}")
    orders = reader.options(subscribe="orders", startingOffsets="earliest").load()
    return orders.select("body", "tags")
"""


@pytest.fixture
def connect(spark: SparkSession) -> Iterator[str]:
    """Yield the address of a server, which is started as Spark starts one by ``spark.plugins``."""
    java: Any = spark.sparkContext._jvm
    context: Any = spark._jsparkSession.sparkContext()
    port = free_port()
    context.conf().set("spark.connect.grpc.binding.address", HOST)
    context.conf().set("spark.connect.grpc.binding.port", str(port))
    server = java.org.apache.spark.sql.connect.SparkConnectPlugin().driverPlugin()
    server.init(context, None)
    try:
        yield f"{HOST}:{port}"
    finally:
        server.shutdown()


@pytest.mark.timeout(600)  # the client's start and a dozen small jobs: ten seconds, or more on a busy machine
def test_what_the_page_shows_is_what_happens(connect: str, tmp_path: Path) -> None:
    assert run_page(connect, tmp_path) == 2


@pytest.mark.timeout(600)  # as above
def test_a_declarative_pipeline_reads_topics_and_writes_to_them(connect: str, tmp_path: Path) -> None:
    (tmp_path / "transformations").mkdir()
    spec = tmp_path / "spark-pipeline.yml"
    spec.write_text(SPEC.format(folder=tmp_path))
    with in_thread(tmp_path / "store") as live:
        with Producer(live.name_server) as producer:
            for topic in ("orders", "copies"):
                producer.send(Message(topic, b"first", "t"))
        code = TRANSFORMATIONS.format(namesrv=live.name_server)
        (tmp_path / "transformations" / "copies.py").write_text(code)
        command = [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", str(spec)]
        environment = {**os.environ, "SPARK_REMOTE": f"sc://{connect}"}
        ran = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        with PullConsumer(live.name_server, "judge") as consumer:
            found = [one for queue in consumer.queues("copies") for one in consumer.messages(queue)]
    assert [(one.body, one.tags) for one in found] == [(b"first", "t")] * 2
