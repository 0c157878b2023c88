"""Add exported Parquet files to a Delta table, by transactions.

A transaction of Delta can hold a version number of the application, under the application's name. So the
files of a round and the CommitLog offset at which the next one begins are committed together or not at all;
and of two runs that began at the same offset one is refused.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, RemoveAction
from pyspark.sql.types import StructType

from cometmq.errors import SettingsError, StoreLocked
from cometmq.spark.jobs.export.export_files import BY, DAY, MadeFile
from cometmq.spark.jobs.export.targets import DELTA_LOG, JobTarget

APPLICATION: Final = "cometmq-spark-export"
_S3_OPTIONS: Final = {
    "key": "AWS_ACCESS_KEY_ID",
    "secret": "AWS_SECRET_ACCESS_KEY",
    "token": "AWS_SESSION_TOKEN",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "region_name": "AWS_REGION",
}
"""By fsspec's name of an option, Delta's."""


class Table:
    """The Delta table in a directory, created if there is none.

    Args:
        options: of Delta, for the file system of the directory, over those from fsspec's configuration.

    Raises:
        SettingsError: the table has other columns, or cannot be reached.
    """

    def __init__(
        self, target: JobTarget, columns: StructType, by: Sequence[str] = BY, options: Mapping[str, str] = {}
    ) -> None:
        self._target = target
        self._by = list(by)
        self._options = {**storage_options(target.address), **options}
        try:
            schema = Schema.from_json(columns.json())  # Delta's and Spark's JSON is the same
            DeltaTable.create(
                target.address, schema, mode="ignore", partition_by=self._by, storage_options=self._options
            )
            self._table = DeltaTable(target.address, storage_options=self._options)
        except (DeltaError, OSError) as error:
            raise SettingsError(f"{target.address}: {error}") from None
        there = {field.name: field.type for field in self._table.schema().fields}
        unlike = [field.name for field in schema.fields if there.get(field.name) != field.type]
        if unlike or self._table.metadata().partition_columns != self._by:
            what = f"has no such column as {', '.join(unlike)}" if unlike else "is partitioned otherwise"
            raise SettingsError(
                f"the Delta table {target.address} {what}: keep to the same columns, or give another target"
            )

    def next_begin(self) -> int:
        """Return the CommitLog offset at which the next round begins."""
        self._table.update_incremental()
        return self._table.transaction_version(APPLICATION) or 0

    def add(self, files: Iterable[MadeFile], next_begin: int) -> None:
        """Commit files of the directory to the table, with the offset at which the next round begins.

        Raises StoreLocked if another run has committed since this table was loaded.
        """
        done = CommitProperties(app_transactions=[Transaction(APPLICATION, next_begin)])
        new: list[AddAction | RemoveAction] = [_added(file) for file in files]
        try:
            self._table.create_write_transaction(
                new, "append", self._table.schema(), self._by, commit_properties=done
            )
        except CommitFailedError as error:
            raise StoreLocked(
                f"{self._target.address} was filled by another job meanwhile: {error}"
            ) from None
        self._target.sync(DELTA_LOG, f"{self._table.version():020}")  # and the pointer to the last checkpoint


def storage_options(address: str) -> dict[str, str]:
    """Return fsspec's configuration for an address as Delta's options; both read ``AWS_…`` anyway."""
    if address.partition(":")[0] not in ("s3", "s3a"):
        return {}
    from fsspec.config import conf  # noqa: PLC0415 - an optional package, there if the target could be reached

    known = {**conf.get("s3a", {}), **conf.get("s3", {})}
    known |= known.get("client_kwargs", {})
    found = {theirs: str(known[ours]) for ours, theirs in _S3_OPTIONS.items() if known.get(ours)}
    if found.get("AWS_ENDPOINT_URL", "").startswith("http:"):
        found["AWS_ALLOW_HTTP"] = "true"
    return found


def columns_of(target: JobTarget) -> list[str]:
    """Return the names of a table's columns."""
    return [field.name for field in _table(target).schema().fields]


def files_of(target: JobTarget) -> list[str]:
    """Return the names of a table's present files; other files in its directory are no part of it.

    Raises SettingsError if rows are deleted: Delta keeps them in the files, and lists them elsewhere.
    """
    table = _table(target)
    if any(batch.num_rows for batch in table.deletion_vectors()):
        raise SettingsError(
            f"the Delta table {target.address} has deletion vectors: purge the deleted rows first"
        )
    return [unquote(path.as_py()) for path in pa.table(table.get_add_actions())["path"]]


def _table(target: JobTarget) -> DeltaTable:
    return DeltaTable(target.address, storage_options=storage_options(target.address))


def _added(file: MadeFile) -> AddAction:
    return AddAction(
        path=file.name,
        size=file.bytes,
        partition_values={"topic": file.topic, DAY: file.day},
        modification_time=file.modified_ms,
        data_change=True,
        stats=file.stats,
    )
