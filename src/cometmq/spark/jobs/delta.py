"""A Delta table of exported messages: Parquet files become its rows by a transaction.

Delta keeps with a transaction how far the application has come that made it, under a name of its own. So
the files of a run, and the CommitLog offset at which the next one begins, are there together or not at all;
and of two runs that began at the same offset one is refused.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql.types import StructType

from cometmq.errors import SettingsError, StoreLocked
from cometmq.io.files import FileLayer
from cometmq.spark.jobs.paths import DELTA_LOG

APPLICATION: Final = "cometmq-spark-export"
MEASURED: Final = ("physical_offset", "store_time")
"""Columns whose least and greatest value in each file are kept: by them readers pass over files."""


class Table:
    """The Delta table in a directory, which is made if there is none; as it is now.

    Raises:
        SettingsError: there is one that cannot take these columns.
    """

    def __init__(self, place: Path, columns: StructType, by: Sequence[str]) -> None:
        self._place = place
        self._by = list(by)
        try:
            schema = Schema.from_json(columns.json())  # Delta's and Spark's words are the same
            self._table = DeltaTable.create(place, schema, mode="ignore", partition_by=self._by)
        except DeltaError as error:
            raise SettingsError(f"{place}: {error}") from None
        there = {field.name: field.type for field in self._table.schema().fields}
        unlike = [field.name for field in schema.fields if there.get(field.name) != field.type]
        if unlike or self._table.metadata().partition_columns != self._by:
            what = f"has no such column as {', '.join(unlike)}" if unlike else "is partitioned otherwise"
            raise SettingsError(
                f"the Delta table {place} {what}: keep to the same columns, or give another target"
            )

    def begin(self) -> int:
        """Give the CommitLog offset at which the next run begins."""
        return self._table.transaction_version(APPLICATION) or 0

    def add(self, layer: FileLayer, files: Iterable[Path], next_begin: int) -> None:
        """Make files of the directory rows of the table, and note where the next run begins.

        Raises StoreLocked if another run has done so since this table was looked at.
        """
        done = CommitProperties(app_transactions=[Transaction(APPLICATION, next_begin)])
        new: list[AddAction | RemoveAction] = [self._added(file) for file in files]
        try:
            self._table.create_write_transaction(
                new, "append", self._table.schema(), self._by, commit_properties=done
            )
        except CommitFailedError as error:
            raise StoreLocked(f"{self._place} was filled by another job meanwhile: {error}") from None
        log = self._place / DELTA_LOG
        for name in layer.names(log):
            if name >= f"{self._table.version():020}":  # what is new, and the note of the last checkpoint
                layer.sync(log / name)
        layer.sync(log)

    def _added(self, file: Path) -> AddAction:
        place = file.relative_to(self._place)
        parts = (part.partition("=") for part in place.parent.parts)
        status = file.stat()
        return AddAction(
            path=place.as_posix(),
            size=status.st_size,
            partition_values={name: unquote(value) for name, _, value in parts},
            modification_time=status.st_mtime_ns // 1_000_000,
            data_change=True,
            stats=json.dumps(stats(file)),
        )


def columns_of(place: Path) -> list[str]:
    """Give the names of a table's columns."""
    return [field.name for field in DeltaTable(place).schema().fields]


def files_of(place: Path) -> list[Path]:
    """Give the files of a table as it is now; others that lie there are no part of it.

    Raises SettingsError if some of their rows are deleted: Delta keeps those in the files, and a list beside.
    """
    table = DeltaTable(place)
    if any(batch.num_rows for batch in table.deletion_vectors()):
        raise SettingsError(f"the Delta table {place} has deletion vectors: purge the deleted rows first")
    return [Path(uri) for uri in table.file_uris()]


def stats(file: Path) -> dict[str, Any]:
    """Give what Delta wants to know of a Parquet file: how many rows, and the bounds of some columns."""
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


def _value(bound: int | datetime) -> int | str:
    """Give a bound as Delta writes it."""
    return bound if isinstance(bound, int) else bound.isoformat(timespec="milliseconds")
