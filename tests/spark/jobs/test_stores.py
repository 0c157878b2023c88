from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cometmq.errors import SettingsError
from cometmq.spark.jobs.stores import on_each

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy


def test_a_store_that_fails_costs_the_others_nothing(spark: SparkSession, tmp_path: Path) -> None:
    stores = [tmp_path / name for name in ("a", "nowhere", "b")]
    for store in (stores[0], stores[2]):
        store.write_bytes(store.name.encode())

    def work(path: Path) -> Iterator[bytes]:
        yield path.read_bytes()
        yield b"more"

    (a, nowhere, b) = on_each(spark, "look", stores, work)
    assert a == (stores[0], [b"a", b"more"], "")
    assert b == (stores[2], [b"b", b"more"], "")
    assert nowhere[1] == [] and "No such file" in nowhere[2]


def test_without_stores_the_remedy_is_told(spark: SparkSession) -> None:
    with pytest.raises(SettingsError, match="no store is given"):
        on_each(spark, "look", [], lambda _: iter(()))
