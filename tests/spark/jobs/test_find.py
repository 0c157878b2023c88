from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cometmq.spark.jobs.find import find
from cometmq.store.directory import StoreDirectory
from cometmq.store.find import Wanted
from cometmq.store.find import find as find_alone

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy


def test_each_store_is_searched_as_by_one_machine(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    stores = [golden["store-clean"], tmp_path / "nowhere", golden["store-killed"]]
    wanted = Wanted(topic="GoldenA")
    expected = []
    for store in (stores[0], stores[2]):
        with StoreDirectory(store) as opened:
            expected.append(list(find_alone(opened, wanted)))
    clean, nowhere, killed = find(spark, stores, wanted, limit=50)
    assert len(clean.found) == 50
    assert [clean.found, killed.found] == [found[:50] for found in expected]
    assert (clean.store, clean.error, nowhere.found) == (stores[0], "", [])
    assert "no such directory" in nowhere.error
