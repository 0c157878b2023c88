"""Find the present end of a store's log: brokers create files ahead, and may append meanwhile."""

import sys
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession

from cometmq import kernels
from cometmq.spark.files.remote import RemotePath, opened
from cometmq.spark.files.splits import FilePiece, LogFile, splits, within
from cometmq.spark.files.walk import scans
from cometmq.spark.jobs.parts import on_parts

SIZE_BYTES: Final = 4
"""Bytes of a record's size field, with which it begins: they are not all zeros."""


def last_begun(files: Sequence[LogFile]) -> int | None:
    """Return the index of the last file with data; None if none has any. Raises OSError."""
    return next((number for number in reversed(range(len(files))) if _has_begun(files[number])), None)


def records_end(spark: SparkSession, files: Sequence[LogFile], begin: int, bytes_per_task: int) -> int | None:
    """Return the CommitLog offset behind the last record; None if there is none from ``begin`` on.

    Tasks scan the last files with data. Raises OSError.
    """
    files = [file for file in files if file.base_offset + file.size > begin]
    while (number := last_begun(files)) is not None:
        parts = [within(split, begin, sys.maxsize) for split in splits([files[number]], bytes_per_task)]
        end = max(_ends(spark, [part for part in parts if part]), default=-1)
        if end >= 0:
            return end
        files = files[:number]
    return None


def _ends(spark: SparkSession, parts: list[list[FilePiece]]) -> list[int]:
    """Return the CommitLog offsets behind the last record of each part that has one."""

    def look(part: list[FilePiece]) -> Iterator[pa.RecordBatch]:
        ends = [end for piece in part for end in _scanned(piece)]
        yield pa.RecordBatch.from_pydict({"end": pa.array(ends[-1:], pa.int64())})

    return [row["end"] for row in on_parts(spark, parts, look, "end bigint").collect()]


def _scanned(piece: FilePiece) -> Iterator[int]:
    """Scan a piece; yield the CommitLog offset behind the records of each scan."""
    found, ops = opened(piece.file.path, piece.file.size, piece.end), kernels.load_if_possible()
    for records in scans(found, piece, ops, on_damage=lambda _: None):
        yield records.end_offset


def _has_begun(file: LogFile) -> bool:
    if not file.written:
        return False
    if isinstance(file.path, RemotePath):
        return any(file.path.fetch(0, SIZE_BYTES))
    with file.path.open("rb") as opened_file:
        return any(opened_file.read(SIZE_BYTES))
