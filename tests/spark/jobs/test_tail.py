"""The end of a log is found in its last file that has something, here and on S3."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from fsspec import filesystem
from pyspark.sql import SparkSession

from cometmq.format import layout
from cometmq.spark.files.remote import path_of
from cometmq.spark.files.splits import log_files
from cometmq.spark.jobs.tail import last_begun, records_end
from cometmq.store.verify import verify

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

FILE = 1 << 20


@pytest.fixture
def store(golden: Mapping[str, Path], tmp_path: Path) -> Path:
    """Return a store with two files made ahead: one is a hole, one was filled with zeros."""
    store = Path(shutil.copytree(golden["store-clean"], tmp_path / "store"))
    layout.commitlog_path(store, 2 * FILE).write_bytes(bytes(FILE))
    with layout.commitlog_path(store, 3 * FILE).open("wb") as file:
        file.truncate(FILE)
    return store


def test_files_that_were_made_ahead_have_nothing(store: Path) -> None:
    assert last_begun(log_files(store)) == 1
    assert last_begun(log_files(store)[2:]) is None and last_begun([]) is None


def test_the_end_is_behind_the_last_record(spark: SparkSession, store: Path, bucket: str) -> None:
    end = verify(store).bytes
    filesystem("s3").put(str(store / "commitlog"), f"{bucket}/commitlog", recursive=True)
    for files in (log_files(store), log_files(path_of(bucket))):
        assert records_end(spark, files, 0, 200_000) == end
        assert records_end(spark, files, end - 10, 1 << 30) is None
        assert records_end(spark, files, 10 * FILE, 1 << 30) is None
    with layout.commitlog_path(store, FILE).open("r+b") as file:
        file.write(b"\1" * FILE)  # begun, but nothing can be read
    assert 0 < (records_end(spark, log_files(store), 0, 1 << 30) or 0) < FILE
