from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.cli.conftest import Run

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy


def test_people_get_a_table_and_programs_get_a_document_for_each_store(
    cometmq: Run, spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    master = spark.sparkContext.master
    ran = cometmq("spark", "verify", str(golden["store-clean"]), "--master", master)
    assert ran.code == 0
    heading, *_, row = (line.split() for line in ran.out.splitlines())
    assert heading[:3] == ["store", "state", "messages"]
    assert row[:3] == [str(golden["store-clean"]), "sound", "2685"]
    nowhere = cometmq("spark", "verify", str(tmp_path / "nowhere"), "--json", "--master", master)
    assert nowhere.code == 1
    assert [value["state"] for value in nowhere.values] == ["unreadable"]
