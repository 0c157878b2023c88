from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cometmq.spark.jobs.export import parquet_files
from cometmq.spark.jobs.export.parquet_files import ParquetFile

SCHEMA = pa.schema([("a", pa.int64())])


def test_rows_are_written_in_groups_and_the_file_has_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet_files, "ROW_GROUP_BYTES", 100)
    path = tmp_path / "a.parquet"
    with ParquetFile(path, SCHEMA) as file:
        for begin in range(0, 40, 10):
            file.add(pa.RecordBatch.from_pydict({"a": list(range(begin, begin + 10))}, SCHEMA))
        file.note("what", "numbers")
    assert file.rows == 40
    assert pq.read_table(path)["a"].to_pylist() == list(range(40))
    found = pq.read_metadata(path)
    assert found.num_row_groups == 2 and (found.metadata or {})[b"what"] == b"numbers"


def test_without_rows_it_is_an_empty_file(tmp_path: Path) -> None:
    with ParquetFile(tmp_path / "a.parquet", SCHEMA):
        pass
    assert pq.read_table(tmp_path / "a.parquet").schema.names == ["a"]
