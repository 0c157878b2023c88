from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cometmq.spark.jobs.find.find import Hits, find
from cometmq.store.directory import StoreDirectory
from cometmq.store.offline.find import FindQuery, Found
from cometmq.store.offline.find import find as find_alone

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

SPLIT = 100_000


def alone(store: Path, wanted: FindQuery, *, use_index: bool = True) -> list[Found]:
    with StoreDirectory(store) as opened:
        return list(find_alone(opened, wanted, use_index=use_index))


def test_each_store_is_searched_as_by_one_machine(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    stores = [golden["store-clean"], tmp_path / "nowhere", golden["store-killed"]]
    wanted = FindQuery(topic="GoldenA")
    expected = [alone(store, wanted) for store in (stores[0], stores[2])]
    clean, nowhere, killed = find(spark, stores, wanted, limit=50, bytes_per_task=SPLIT)
    assert len(clean.found) == 50
    assert [clean.found, killed.found] == [found[:50] for found in expected]
    assert (clean.store, clean.error, nowhere.found) == (stores[0], "", [])
    assert "no such directory" in nowhere.error


def test_without_a_limit_all_is_found_by_key_with_and_without_the_index(
    spark: SparkSession, golden: Mapping[str, Path]
) -> None:
    store = golden["store-clean"]
    key = next(
        found for found in alone(store, FindQuery(topic="GoldenA")) if b"KEYS\1" in found.record.properties
    )
    text = key.record.properties.partition(b"KEYS\1")[2].partition(b"\2")[0].decode().split()[0]
    for wanted in (FindQuery(key=text), FindQuery(topic="GoldenB", tags="TagA")):
        expected = alone(store, wanted, use_index=False)
        assert expected
        for use_index in (True, False):
            found = find(spark, [store], wanted, limit=10**6, use_index=use_index, bytes_per_task=SPLIT)
            assert found == [Hits(store, expected, "")]
