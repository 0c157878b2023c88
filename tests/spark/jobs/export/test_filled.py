"""What jobs have put into a target is read back, and nothing else that lies there: from disks and from S3."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType

from cometmq.errors import SettingsError
from cometmq.spark.files.remote import RemotePath, path_of
from cometmq.spark.jobs.export import filled as module
from cometmq.spark.jobs.export import targets
from cometmq.spark.jobs.export.delta import Table, files_of, storage_options
from cometmq.spark.jobs.export.export_files import MadeFile
from cometmq.spark.jobs.export.filled import DAY_MS, filled
from cometmq.spark.jobs.export.targets import DELTA_LOG, JobTarget, TargetFile, target_of
from cometmq.spark.schema import arrow_schema, spark_schema

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

COLUMNS: Final = ("physical_offset", "topic", "properties", "store_time")
WITHOUT_TOPIC: Final = ("physical_offset", "properties", "store_time")
LETTERS: Final = "%DLQ%a|b"
LETTERS_FOLDER: Final = "topic=%25DLQ%25a|b/day=2026-01-31"
ORDERS_FOLDER: Final = "topic=orders/day=2026-01-31"


@pytest.fixture
def target(place: str) -> JobTarget:
    """Return a target that is not there yet."""
    return target_of(place, "_job")


def write(
    target: JobTarget, name: str, offsets: list[int], topic: str, columns: tuple[str, ...] = COLUMNS
) -> MadeFile:
    row = {"topic": topic, "properties": [("a", "b")], "store_time": 0}
    rows = [row | {"physical_offset": offset} for offset in offsets]
    with target.staging() as folder:
        path = folder / "made"
        pq.write_table(pa.Table.from_pylist(rows, arrow_schema(columns)), path)
        size = path.stat().st_size
        target.put(path, name)
    return MadeFile(name, topic, "2026-01-31", len(rows), size, 0, json.dumps({"numRecords": len(rows)}))


def seen(
    spark: SparkSession, target: JobTarget, topics: frozenset[str] | None = None
) -> list[tuple[Any, ...]] | None:
    frame = filled(spark, path_of(target.address), COLUMNS, topics=topics)
    if frame is None:
        return None
    assert tuple(frame.columns) == COLUMNS
    rows = frame.collect()
    assert all(row["properties"] == {"a": "b"} for row in rows)
    return sorted((row["physical_offset"], row["topic"]) for row in rows)


def test_of_an_archive_what_is_before_its_end_is_read(
    spark: SparkSession, target: JobTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seen(spark, target) is None
    write(target, f"log={0:020}/{0:020}.parquet", [1], "orders")
    write(target, f"log={0:020}/{8:020}.parquet", [9], LETTERS)
    write(target, f"log={16:020}/{16:020}.parquet", [17], "orders")
    write(target, "_archive/x/9.parquet", [10], "orders")
    assert seen(spark, target) == [(1, "orders"), (9, LETTERS), (17, "orders")]  # nobody says how far it goes
    target.create(f"_archive/{0:020}.done.json", json.dumps({"begin": 0, "next": 16}).encode())
    assert seen(spark, target) == [(1, "orders"), (9, LETTERS)]
    monkeypatch.setattr(module, "BYTES_PER_PARTITION", 1)
    assert seen(spark, target, frozenset({LETTERS})) == [(9, LETTERS)]


def test_of_exported_parquet_topics_are_told_by_folders(spark: SparkSession, target: JobTarget) -> None:
    write(target, f"{ORDERS_FOLDER}/{0:020}.parquet", [1], "", WITHOUT_TOPIC)
    write(target, f"{LETTERS_FOLDER}/{0:020}.parquet", [9], "", WITHOUT_TOPIC)
    write(target, f"{LETTERS_FOLDER}/{20:020}.parquet", [21], "", WITHOUT_TOPIC)
    target.create(f"_export/{0:020}.done.json", json.dumps({"begin": 0, "next": 20}).encode())
    assert seen(spark, target) == [(1, "orders"), (9, LETTERS)]
    assert seen(spark, target, frozenset({"orders"})) == [(1, "orders")]
    with pytest.raises(SettingsError, match="has no column body: export all columns"):
        filled(spark, path_of(target.address), ("topic", "body"))


def test_of_a_delta_table_the_files_are_read_that_are_its(spark: SparkSession, target: JobTarget) -> None:
    table = Table(target, spark_schema(COLUMNS).add("day", DateType()))
    assert seen(spark, target) == []
    files = [
        write(target, f"{ORDERS_FOLDER}/a.parquet", [1], "", WITHOUT_TOPIC)._replace(topic="orders"),
        write(target, f"{ORDERS_FOLDER}/b.parquet", [5], "", WITHOUT_TOPIC)._replace(topic="orders"),
        write(target, f"{LETTERS_FOLDER}/c.parquet", [9], "", WITHOUT_TOPIC)._replace(topic=LETTERS),
    ]
    table.add(files, 10)
    write(target, f"{LETTERS_FOLDER}/nobodys.parquet", [9], "", WITHOUT_TOPIC)
    compacted = DeltaTable(target.address, storage_options=storage_options(target.address)).optimize.compact()
    assert compacted["numFilesRemoved"] == 2
    assert all(target.exists(file.name) for file in files)  # until somebody cleans up
    assert seen(spark, target) == [(1, "orders"), (5, "orders"), (9, LETTERS)]
    with pytest.raises(SettingsError, match="has no column body: export all columns"):
        filled(spark, path_of(target.address), ("topic", "body"))


def test_rows_that_are_deleted_beside_the_files_are_not_brought_back(tmp_path: Path) -> None:
    feature = ["deletionVectors"]
    first_row = {"storageType": "i", "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000005c8Xg00000"}
    schema = {"type": "struct", "fields": [{"name": "a", "type": "long", "nullable": True, "metadata": {}}]}
    actions: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7}},
        {"metaData": {"id": "1", "format": {"provider": "parquet", "options": {}}, "configuration": {}}},
        {"add": {"path": "a.parquet", "partitionValues": {}, "size": 1, "modificationTime": 0}},
    ]
    actions[0]["protocol"] |= {"readerFeatures": feature, "writerFeatures": feature}
    actions[1]["metaData"] |= {"schemaString": json.dumps(schema), "partitionColumns": []}
    actions[2]["add"] |= {"dataChange": True, "stats": json.dumps({"numRecords": 3})}
    actions[2]["add"] |= {"deletionVector": first_row | {"sizeInBytes": 34, "cardinality": 1}}
    (tmp_path / DELTA_LOG).mkdir()
    (tmp_path / DELTA_LOG / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(SettingsError, match="has deletion vectors"):
        files_of(target_of(tmp_path, ""))


def test_files_of_other_topics_and_days_are_neither_listed_nor_opened(
    spark: SparkSession, target: JobTarget, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = LETTERS_FOLDER.replace("01-31", "02-01")
    for number, folder in enumerate((ORDERS_FOLDER, LETTERS_FOLDER, later)):
        write(target, f"{folder}/{0:020}.parquet", [number], "", WITHOUT_TOPIC)
    opened, listed = list[str](), list[str]()
    messages, below = module._messages, RemotePath.files_below

    def counted(spark: SparkSession, source: Path, files: list[TargetFile], *more: Any) -> Any:
        opened.extend(file.name for file in files)
        return messages(spark, source, files, *more)

    def counted_below(self: RemotePath) -> list[tuple[RemotePath, int]]:
        found = below(self)
        listed.extend("/".join(path.parts[-3:]) for path, _ in found)
        return found

    monkeypatch.setattr(module, "_messages", counted)
    monkeypatch.setattr(RemotePath, "files_below", counted_below)
    assert seen(spark, target, frozenset({LETTERS})) == [(1, LETTERS), (2, LETTERS)]
    assert opened == [f"{folder}/{0:020}.parquet" for folder in (LETTERS_FOLDER, later)]
    assert listed in ([], opened)  # of a target on a disk nothing costs a request
    midnight = round(datetime(2026, 2, 1, tzinfo=UTC).timestamp() * 1000)
    for times, folders in (
        ((midnight, midnight), [later]),
        ((0, midnight - 1), [LETTERS_FOLDER]),
        ((midnight - 1, midnight), [LETTERS_FOLDER, later]),
        ((midnight + DAY_MS, midnight * 2), []),
    ):
        opened.clear()
        filled(spark, path_of(target.address), COLUMNS, topics=frozenset({LETTERS}), times=times)
        assert opened == [f"{folder}/{0:020}.parquet" for folder in folders]
    assert seen(spark, target, frozenset({"nobody's"})) == []
    monkeypatch.setattr(targets, "FOLDERS_MAX", 0)
    assert seen(spark, target, frozenset({LETTERS})) == [(1, LETTERS), (2, LETTERS)]
