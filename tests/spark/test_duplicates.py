import pytest
from pyspark.sql import SparkSession

from cometmq.spark import drop_duplicates
from cometmq.spark.schema import spark_schema

COLUMNS = ("topic", "queue_id", "queue_offset", "store_host", "properties")


@pytest.mark.timeout(600)
def test_one_of_each_key_is_kept_and_all_without_one(spark: SparkSession) -> None:
    rows = [
        ("t", 0, offset, "b", {"IDEMPOTENCE_KEY": key} if key else {})
        for offset, key in enumerate(["x", "y", "x", None, None])
    ]
    rows.append(("another", 0, 5, "b", {"IDEMPOTENCE_KEY": "x"}))
    kept = drop_duplicates(spark.createDataFrame(rows, spark_schema(COLUMNS)))
    assert kept.columns == list(COLUMNS)
    found = [(row["properties"].get("IDEMPOTENCE_KEY"), row["queue_offset"]) for row in kept.collect()]
    assert sorted(key or "" for key, _ in found) == ["", "", "x", "x", "y"]
    assert {offset for _, offset in found} >= {1, 3, 4, 5}
