"""Write the Parquet files of an export in tasks: one for each topic, day and GiB of the log.

Folders are named as in Hive and Spark, with the values of columns in their names.
"""

import json
from collections.abc import Iterable, Iterator
from datetime import date, datetime
from itertools import groupby, pairwise
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from cometmq.format.layout import offset_name
from cometmq.spark.jobs.export.parquet_files import ParquetFile
from cometmq.spark.jobs.export.targets import JobTarget

DAY: Final = "day"
BY: Final = ("topic", DAY)
FILE_BEGIN: Final = "file_begin"
"""The column of the CommitLog offset at which the file of a row begins."""
MEASURED: Final = ("physical_offset", "store_time")
"""Columns with the least and greatest value of each file in its statistics: readers skip files by them."""
MADE: Final = (
    "name string, topic string, day string, messages bigint, bytes bigint, modified_ms bigint, stats string"
)
_MADE: Final[dict[str, pa.DataType]] = {
    "name": pa.string(),
    "topic": pa.string(),
    "day": pa.string(),
    "messages": pa.int64(),
    "bytes": pa.int64(),
    "modified_ms": pa.int64(),
    "stats": pa.string(),
}
_ESCAPED: Final = frozenset("\"#%'*/:=?\\\x7f{[]^") | {chr(code) for code in range(1, 32)}
_NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"


class MadeFile(NamedTuple):
    """A file that a task has put into the target.

    Attributes:
        name: where it is in the target.
        day: of the store time, UTC: ``2026-01-31``.
        modified_ms: when it was written, ms since the epoch.
        stats: Delta's statistics, as JSON.
    """

    name: str
    topic: str
    day: str
    messages: int
    bytes: int
    modified_ms: int
    stats: str


class ExportFiles:
    """Writes the rows of a task, which are sorted by topic, day, file and log.

    Args:
        folder: where files are written before they are put into the target.
        schema: of the files.
    """

    def __init__(self, target: JobTarget, folder: Path, schema: pa.Schema) -> None:
        self._target = target
        self._folder = folder
        self._schema = schema

    def write(self, batches: Iterator[pa.RecordBatch]) -> Iterator[MadeFile]:
        """Write all rows; yield each file once it is in the target."""
        for key, runs in groupby(_runs(batches), key=itemgetter(0)):
            topic, day, begin = key
            name = f"topic={hive_name(topic)}/{DAY}={day}/{offset_name(begin)}.parquet"
            path = self._folder / "made.parquet"
            with ParquetFile(path, self._schema) as file:
                for _, rows in runs:
                    file.add(rows.select(self._schema.names).cast(self._schema))
            made = path.stat()
            known = json.dumps(stats(path))
            self._target.put(path, name)
            yield MadeFile(
                name, topic, str(day), file.rows, made.st_size, made.st_mtime_ns // 1_000_000, known
            )


def made_batch(files: Iterable[MadeFile]) -> pa.RecordBatch:
    """Build a batch of files, with the columns of ``MADE``."""
    return pa.RecordBatch.from_pylist([file._asdict() for file in files], pa.schema(_MADE))


def stats(file: Path) -> dict[str, Any]:
    """Return Delta's statistics of a Parquet file: the number of rows, and the bounds of some columns."""
    found = pq.read_metadata(file)
    bounds: dict[str, list[Any]] = {name: [] for name in MEASURED}
    for group in map(found.row_group, range(found.num_row_groups)):
        for column in map(group.column, range(group.num_columns)):
            measured = column.statistics
            if column.path_in_schema in bounds and measured is not None and measured.has_min_max:
                bounds[column.path_in_schema] += [measured.min, measured.max]
    return {
        "numRecords": found.num_rows,
        "minValues": {name: _value(min(ends)) for name, ends in bounds.items() if ends},
        "maxValues": {name: _value(max(ends)) for name, ends in bounds.items() if ends},
        "nullCount": dict.fromkeys(MEASURED, 0),
    }


def hive_name(value: str) -> str:
    """Encode a value for the name of a folder.

    Source: Spark ``catalyst/catalog/ExternalCatalogUtils.scala`` (``escapePathName``).
    """
    return "".join(f"%{ord(sign):02X}" if sign in _ESCAPED else sign for sign in value) or _NO_VALUE


def hive_value(name: str) -> str:
    """Decode the value in a folder's name, the part behind the equals sign."""
    return "" if name == _NO_VALUE else unquote(name)


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[tuple[str, date, int], pa.RecordBatch]]:
    """Cut batches where the file changes; yield topic, day and begin of each run's file, and its rows."""
    for batch in batches:
        columns = [batch.column(name) for name in (*BY, FILE_BEGIN)]
        changes = np.zeros(max(batch.num_rows - 1, 0), np.bool_)
        for column in columns:
            changes |= pc.not_equal(column[1:], column[:-1]).to_numpy(zero_copy_only=False)
        firsts = [0, *(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
        for first, behind in pairwise(firsts):
            if first < behind:
                topic, day, begin = (column[first].as_py() for column in columns)
                yield (topic, day, begin), batch.slice(first, behind - first)


def _value(bound: int | datetime) -> int | str:
    """Return a bound in Delta's form."""
    return bound if isinstance(bound, int) else bound.isoformat(timespec="milliseconds")
