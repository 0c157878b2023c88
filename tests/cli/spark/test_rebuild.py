import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cli.conftest import Run

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy


def test_it_tells_what_it_made_as_the_one_on_a_single_machine_does(
    cometmq: Run, spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    store = tmp_path / "store"
    shutil.copytree(golden["store-clean"], store, ignore=shutil.ignore_patterns("timer*"))
    (value,) = cometmq("spark", "rebuild", str(store), "--json", "--master", spark.sparkContext.master).values
    assert (value["messages"], value["queues"], value["index_files"]) == (2_685, 24, 3)
    assert "peak_bytes" not in value
    ran = cometmq("spark", "rebuild", str(tmp_path / "nowhere"))
    assert ran.failed(2, "no such directory")
