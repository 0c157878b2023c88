"""The guide's page on Spark Connect, with a server in the session that all tests share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from tests.clusters.connect import run_page
from tests.clusters.standalone import HOST

from cometmq.net.address import free_port


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
