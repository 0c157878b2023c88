from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cli.conftest import Run

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy


def test_it_tells_how_many_messages_of_each_topic_are_new(
    cometmq: Run, spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    command = ["spark", "export", str(golden["store-clean"]), str(tmp_path / "target"), "--topic", "GoldenA"]
    ran = cometmq(*command, "--column", "tags", "--master", spark.sparkContext.master)
    assert ran.code == 0
    lines = ran.out.splitlines()
    assert lines[0].startswith("GoldenA: ") and " new messages, from offset 0 to " in lines[1]
    assert cometmq("spark", "export", str(tmp_path), str(tmp_path / "other")).failed(2, "holds no CommitLog")
