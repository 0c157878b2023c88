"""How fast Spark reads a CommitLog, beside one process that scans the same file with the kernel.

    python -m benches.bench_spark [records]

Makes a CommitLog of 3.5 million records (about 1 GiB) in a temporary folder. All reads find it in the
page cache. Spark runs on ``local[2]``; its first read, which starts Python workers, is not counted.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cometmq import kernels
from cometmq.format import host, layout, properties, record
from cometmq.spark import session
from cometmq.spark.files.log_reader import LogReader
from cometmq.spark.files.remote import opened
from cometmq.spark.files.splits import FilePiece, log_files
from cometmq.spark.files.walk import scans
from cometmq.spark.options import ReadOptions
from cometmq.spark.schema import COLUMNS

RECORDS: Final = 3_500_000
RUNS: Final = 3
TEMPLATES: Final = 32
BODY_SIZE: Final = 124
CHUNK: Final = 100_000
START_TIME: Final = 1_700_000_000_000
HOST: Final = host.pack_host("127.0.0.1", 10911)


def main() -> None:
    """Build the log, read it in each way, print the rates."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as folder:
        store = Path(folder)
        size = write_log(store, count)
        kernels.load()
        print(f"CommitLog of {count:,} records, {size / 1e6:,.0f} MB; medians of {RUNS} runs")

        def report(way: str, read: Callable[[], int]) -> None:
            seconds = statistics.median(timed(read, count) for _ in range(RUNS))
            print(f"{way:<44} {count / seconds / 1e6:6.2f} M records/s {size / seconds / 1e6:8,.0f} MB/s")

        report("one process, scan by the kernel", lambda: scan(store))
        report("one process, every column to Arrow", lambda: to_arrow(store, tuple(COLUMNS)))
        spark = session("local[2]", "bench", work_dir=store)
        spark.read.format("rocketmq").option("limit", "1").load(folder).count()
        for columns in ("queue_id", "topic,tags,queue_id,store_time", ",".join(COLUMNS)):
            frame = spark.read.format("rocketmq").option("columns", columns).load(folder)
            report(f"Spark local[2], count of {columns.count(',') + 1} columns", frame.count)


def timed(read: Callable[[], int], count: int) -> float:
    """Time one read, in seconds, and see that it was complete."""
    started = time.perf_counter()
    found = read()
    seconds = time.perf_counter() - started
    assert found == count, f"read {found:,} of {count:,} records"
    return seconds


def scan(store: Path) -> int:
    """Scan the log with the kernel; give the number of records."""
    (file,) = log_files(store)
    whole = FilePiece(file, 0, file.written, more_follows=False)
    found = opened(file.path, file.size, file.written)
    return sum(part.scan.count for part in scans(found, whole, kernels.load(), on_damage=print))


def to_arrow(store: Path, columns: tuple[str, ...]) -> int:
    """Read the log as one Spark task would; give the number of records."""
    reader = LogReader(ReadOptions((store,)), columns)
    return sum(batch.num_rows for partition in reader.partitions() for batch in reader.read(partition))


def write_log(store: Path, count: int) -> int:
    """Write one CommitLog file of ``count`` records over 4 topics × 8 queues; give its size in bytes."""
    records = b"".join(template(number) for number in range(TEMPLATES))
    templates = np.frombuffer(records, np.uint8).reshape(TEMPLATES, -1)
    size = count * templates.shape[1]
    path = layout.commitlog_path(store, 0)
    path.parent.mkdir(parents=True)
    with path.open("wb") as file:
        for first in range(0, count, CHUNK):
            numbers = np.arange(first, min(first + CHUNK, count))
            rows = templates[numbers % TEMPLATES]
            put(rows, record.QUEUE_OFFSET_AT, numbers // TEMPLATES)
            put(rows, record.PHYSICAL_OFFSET_AT, numbers * templates.shape[1])
            put(rows, record.STORE_TIME_AT, START_TIME + numbers // 100)
            rows.tofile(file)
        file.write(record.encode_blank(record.START_SIZE))
    return size


def template(number: int) -> bytes:
    """Return a record of one of the queues, as a producer's message with a key, a tag and a unique id."""
    named = {properties.UNIQ_KEY: "7F0000010001" * 2 + f"{number:08X}", properties.KEYS: f"key-{number:04}"}
    stored = properties.encode(named | {properties.TAGS: "ABCD"[number % 4], properties.WAIT: "true"})
    body = number.to_bytes(1, "big") * BODY_SIZE
    return record.encode(
        record.Record(f"bench-{number % 4}", body, stored, number // 4, 0, 0, 0, 0, START_TIME, HOST, 0, HOST)
    )


def put(rows: NDArray[np.uint8], at: int, numbers: NDArray[np.int64]) -> None:
    """Write one big-endian long into each record."""
    rows[:, at : at + 8] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


if __name__ == "__main__":
    main()
