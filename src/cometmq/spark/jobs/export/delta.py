"""A Delta table of exported messages: Parquet files become its rows by a transaction.

Delta keeps with a transaction how far the application has come that made it, under a name of its own. So
the files of a round, and the CommitLog offset at which the next one begins, are there together or not at all;
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
from cometmq.spark.jobs.export.targets import JobTarget
from cometmq.spark.jobs.paths import DELTA_LOG

APPLICATION: Final = "cometmq-spark-export"
_S3_OPTIONS: Final = {
    "key": "AWS_ACCESS_KEY_ID",
    "secret": "AWS_SECRET_ACCESS_KEY",
    "token": "AWS_SESSION_TOKEN",
    "endpoint_url": "AWS_ENDPOINT_URL",
    "region_name": "AWS_REGION",
}
"""What fsspec and Delta call the same."""


class Table:
    """The Delta table in a directory, which is made if there is none; as it is now.

    Args:
        options: of Delta, for the file system of the directory, over what fsspec's configuration says.

    Raises:
        SettingsError: there is one that cannot take these columns, or it cannot be reached.
    """

    def __init__(
        self, target: JobTarget, columns: StructType, by: Sequence[str] = BY, options: Mapping[str, str] = {}
    ) -> None:
        self._target = target
        self._by = list(by)
        self._options = {**storage_options(target.address), **options}
        try:
            schema = Schema.from_json(columns.json())  # Delta's and Spark's words are the same
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
        """Make files of the directory rows of the table, and note where the next round begins.

        Raises StoreLocked if another run has done so since this table was looked at.
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
        self._target.sync(DELTA_LOG, f"{self._table.version():020}")  # and the note of the last checkpoint


def storage_options(address: str) -> dict[str, str]:
    """Return in Delta's words how fsspec is configured to reach an address; both read ``AWS_…`` anyway."""
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
    """Return the names of a table's files as it is now; others that lie there are no part of it.

    Raises SettingsError if some of their rows are deleted: Delta keeps those in the files, and a list beside.
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
