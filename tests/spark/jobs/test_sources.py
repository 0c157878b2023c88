"""What jobs have left is read back, and so is a store."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.log_rows import plain_rows

from cometmq.errors import SettingsError
from cometmq.spark.jobs.export.archive import archive
from cometmq.spark.jobs.sources import stored

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy


def test_a_store_is_read_as_it_is(spark: SparkSession, golden: Mapping[str, Path]) -> None:
    rows = [row for row in plain_rows(golden["store-clean"]) if row["topic"] == "GoldenB"]
    frame = stored(spark, golden["store-clean"], ("queue_offset",), topics=frozenset({"GoldenB"}))
    assert frame.count() == len(rows) > 0


def test_an_archive_is_read_as_the_store_it_was_made_of(
    spark: SparkSession, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    done = archive(spark, golden["store-clean"], tmp_path)
    assert stored(spark, tmp_path, ("queue_offset",)).count() == done.messages > 0


def test_what_is_neither_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="holds no CommitLog"):
        stored(spark, tmp_path, ("queue_offset",))
