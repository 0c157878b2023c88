"""What jobs have left is read back, and nothing else that lies there."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from pyspark.sql.types import DateType
from tests.log_rows import plain_rows

from cometmq.errors import SettingsError
from cometmq.io.files import Disk
from cometmq.spark.jobs.delta import Table, files_of
from cometmq.spark.jobs.export import BY
from cometmq.spark.jobs.paths import DELTA_LOG
from cometmq.spark.jobs.sources import stored
from cometmq.spark.schema import arrow_schema, spark_schema

pytestmark = pytest.mark.timeout(600)  # Spark's start and first tasks, on a machine that is busy

COLUMNS: Final = ("physical_offset", "topic", "properties", "store_time")
WITHOUT_TOPIC: Final = ("physical_offset", "properties", "store_time")
LETTERS: Final = "%DLQ%a|b"
LETTERS_FOLDER: Final = "topic=%25DLQ%25a|b/day=2026-01-31"
ORDERS_FOLDER: Final = "topic=orders/day=2026-01-31"


def write(path: Path, offsets: list[int], topic: str, columns: tuple[str, ...] = COLUMNS) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    row = {"topic": topic, "properties": [("a", "b")], "store_time": 0}
    rows = [row | {"physical_offset": offset} for offset in offsets]
    pq.write_table(pa.Table.from_pylist(rows, arrow_schema(columns)), path)
    return path


def seen(spark: SparkSession, source: Path, topics: frozenset[str] | None = None) -> list[tuple[Any, ...]]:
    frame = stored(spark, source, COLUMNS, topics=topics)
    assert tuple(frame.columns) == COLUMNS
    rows = frame.collect()
    assert all(row["properties"] == {"a": "b"} for row in rows)
    return sorted((row["physical_offset"], row["topic"]) for row in rows)


def test_archives_and_exports_are_read(spark: SparkSession, tmp_path: Path) -> None:
    archive, exported = tmp_path / "archive", tmp_path / "exported"
    write(archive / "log=0" / "0.parquet", [1], "orders")
    write(archive / "log=8" / "8.parquet", [9], LETTERS)
    write(archive / "_archive" / "log=9" / "9.parquet", [10], "orders")
    assert seen(spark, archive) == [(1, "orders"), (9, LETTERS)]
    assert seen(spark, archive, frozenset({LETTERS})) == [(9, LETTERS)]
    write(exported / ORDERS_FOLDER / "a.parquet", [1], "", WITHOUT_TOPIC)
    write(exported / LETTERS_FOLDER / "b.parquet", [9], "", WITHOUT_TOPIC)
    assert seen(spark, exported) == [(1, "orders"), (9, LETTERS)]
    with pytest.raises(SettingsError, match="has no column body: export all columns"):
        stored(spark, exported, ("topic", "body"))


def test_of_a_delta_table_the_files_are_read_that_are_its(spark: SparkSession, tmp_path: Path) -> None:
    table = Table(tmp_path, spark_schema(COLUMNS).add("day", DateType()), BY)
    assert seen(spark, tmp_path) == []
    files = [
        write(tmp_path / ORDERS_FOLDER / "a.parquet", [1], "", WITHOUT_TOPIC),
        write(tmp_path / ORDERS_FOLDER / "b.parquet", [5], "", WITHOUT_TOPIC),
        write(tmp_path / LETTERS_FOLDER / "c.parquet", [9], "", WITHOUT_TOPIC),
    ]
    table.add(Disk(), files, 10)
    write(tmp_path / LETTERS_FOLDER / "nobodys.parquet", [9], "", WITHOUT_TOPIC)
    assert DeltaTable(tmp_path).optimize.compact()["numFilesRemoved"] == 2
    assert files[0].exists() and files[1].exists()  # until somebody cleans up
    assert seen(spark, tmp_path) == [(1, "orders"), (5, "orders"), (9, LETTERS)]
    with pytest.raises(SettingsError, match="has no column body: export all columns"):
        stored(spark, tmp_path, ("topic", "body"))


def test_a_store_is_read_as_it_is(spark: SparkSession, golden: Mapping[str, Path]) -> None:
    rows = [row for row in plain_rows(golden["store-clean"]) if row["topic"] == "GoldenB"]
    frame = stored(spark, golden["store-clean"], ("queue_offset",), topics=frozenset({"GoldenB"}))
    assert frame.count() == len(rows) > 0


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
        files_of(tmp_path)
