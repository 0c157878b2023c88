"""Write Parquet files in row groups of limited size."""

from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
from pyarrow.parquet import ParquetWriter

ROW_GROUP_BYTES: Final = 32 * 1024 * 1024
"""Bytes of a row group: a task buffers so many, and so do readers later."""


class ParquetFile:
    """A Parquet file to write, on a local disk; a context manager that closes it.

    Attributes:
        rows: the number of rows added.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.rows = 0
        self._schema = schema
        self._writer = ParquetWriter(path, schema, compression="zstd")
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        """Write the buffered rows, unless the block failed, and close the file."""
        try:
            if kind is None:
                self._write()
        finally:
            self._writer.close()

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of the file's schema."""
        self.rows += batch.num_rows
        self._waiting.append(batch)
        self._waiting_bytes += batch.nbytes
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write()

    def note(self, name: str, text: str) -> None:
        """Add a text about the file to its footer."""
        self._writer.add_key_value_metadata({name: text})

    def _write(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_batches(self._waiting, self._schema))
            self._waiting, self._waiting_bytes = [], 0
