"""Run the same work on each of many stores, one task for each; the files of a store's log."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from cometmq.errors import CometMQError, SettingsError
from cometmq.spark.files.remote import RemotePath, path_of
from cometmq.spark.files.splits import LogFile
from cometmq.spark.jobs.parts import on_parts
from cometmq.spark.jobs.watch import Progress, watched
from cometmq.store.directory import StoreDirectory


def on_each(
    spark: SparkSession,
    step: str,
    stores: Sequence[Path | str],
    work: Callable[[Path], Iterator[bytes]],
    progress: Progress | None = None,
) -> list[tuple[Path, list[bytes], str]]:
    """Run ``work`` on each store; return by store, in order, its results and its error, or "".

    A store that cannot be read does not affect the others. Raises SettingsError if there is no store.
    """
    if not stores:
        raise SettingsError("no store is given: give the directories of one or more")
    roots = [path_of(store) for store in stores]
    paths = [path.absolute() for path in roots]

    def run(numbered: tuple[int, Path]) -> Iterator[pa.RecordBatch]:
        yield _outcome(*numbered, work)

    schema = "number bigint, answers array<binary>, error string"
    with watched(spark, step, progress):
        rows = on_parts(spark, list(enumerate(paths)), run, schema).collect()
    by_number: dict[int, Any] = {row["number"]: row for row in rows}
    return [
        (store, [bytes(answer) for answer in by_number[number]["answers"]], by_number[number]["error"])
        for number, store in enumerate(roots)
    ]


def _outcome(number: int, store: Path, work: Callable[[Path], Iterator[bytes]]) -> pa.RecordBatch:
    answers: list[bytes] = []
    error = ""
    try:
        answers += work(store)
    except (CometMQError, OSError) as failed:
        error = str(failed) or type(failed).__name__
    row = {"number": number, "answers": answers, "error": error}
    types: dict[str, pa.DataType] = {
        "number": pa.int64(),
        "answers": pa.list_(pa.field("element", pa.binary())),
        "error": pa.string(),
    }
    return pa.RecordBatch.from_pylist([row], pa.schema(types))


def log_files_of(store: StoreDirectory) -> list[LogFile]:
    """Return the usable files of a store's log; of remote ones it is not asked where their data ends."""
    chain, is_remote = store.log.chain, isinstance(store.root, RemotePath)
    return [
        LogFile(
            path_of(chain.path(start)),
            start,
            chain.file_size,
            chain.file_size if is_remote else chain.file(start).data_end(0),
        )
        for start in chain.starts
    ]
