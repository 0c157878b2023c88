from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cli.conftest import Run

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy


def test_messages_are_told_with_their_stores(
    cometmq: Run, spark: SparkSession, golden: Mapping[str, Path]
) -> None:
    stores = [str(golden[name]) for name in ("store-clean", "store-killed")]
    command = ["spark", "find", *stores, "--master", spark.sparkContext.master]
    ran = cometmq(*command, "--topic", "GoldenA", "--limit", "2")
    assert ran.code == 0
    assert f"{stores[0]}:" in ran.out.splitlines()
    assert ran.out.count("queue_offset") >= 2
    nothing = cometmq(*command, "--key", "there is none")
    assert (nothing.code, nothing.err.splitlines()[-1]) == (3, "not found")
    assert cometmq("spark", "find", stores[0]).failed(2, "no condition")
