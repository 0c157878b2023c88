"""Into however many splits Spark cuts a log, it must read the rows that the plain reader reads.

    python -m tests.campaigns splits [--mib 1024] [--splits 64] [--seed N]

The golden stores, and a large one with all kinds of records, with damage and torn tails, are read by Spark
in 1, 2, … splits. A read is compared by its count of rows and, for each column, a hash of all its values
that does not depend on their order: the row's physical offset is hashed with each value.
"""

import os
import random
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from tests.campaigns.kit.options import add_numbers
from tests.campaigns.spark.splits_log import write_log
from tests.conftest import GOLDEN, unpack
from tests.log_rows import plain_rows

from cometmq.kernels.arrow.plain import TIME_MAX_MS
from cometmq.spark import session
from cometmq.spark.files.splits import log_files, splits
from cometmq.spark.schema import COLUMNS, arrow_schema
from cometmq.spark.values import BYTES_PER_PARTITION_MIN

ROWS_AT_ONCE: Final = 10_000
TIMES: Final = ("born_time", "store_time")
MIB: Final = 1 << 20

Digest = dict[str, int]


def options(parser: ArgumentParser) -> None:
    """Add the options."""
    add_numbers(parser, mib=1024, splits=64)


def main(options: Namespace) -> list[str]:
    """Run the campaign and print what it compared."""
    with tempfile.TemporaryDirectory(prefix="cometmq-splits-") as folder:
        stores = golden_stores(Path(folder))
        write_log(Path(folder, "large"), options.mib * MIB, random.Random(options.seed))
        with (
            told_in(Path(folder, "log")),
            session("local[2]", "splits", work_dir=Path(folder)) as spark,
        ):
            for store in (*stores, Path(folder, "large")):
                compare(spark, store, options.splits)
    return []


@contextmanager
def told_in(path: Path) -> Iterator[None]:
    """Redirect to a file what this process and its children write to stderr, each damage among it."""
    stderr = os.dup(sys.stderr.fileno())
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), sys.stderr.fileno())
        yield
    finally:
        os.dup2(stderr, sys.stderr.fileno())
        os.close(stderr)


def golden_stores(folder: Path) -> list[Path]:
    """Unpack the golden stores."""
    for archive in sorted(GOLDEN.glob("*.tgz")):
        unpack(archive, folder)
    return sorted(folder.glob("store-*"))


def compare(spark: SparkSession, store: Path, splits_max: int) -> None:
    """Read a store in 1 to ``splits_max`` splits, each time as the plain reader does."""
    begin = time.monotonic()
    parquet = store.with_suffix(".parquet")
    write_rows(store, parquet)
    expected = digest(spark.read.parquet(str(parquet)))
    plain_s = time.monotonic() - begin
    parquet.unlink()
    files = log_files(store)
    size = sum(file.written for file in files)
    most = min(splits_max, size // BYTES_PER_PARTITION_MIN)
    for count in range(1, most + 1):
        bytes_per_split = -(-size // count)
        assert len(splits(files, bytes_per_split)) == count
        reader = spark.read.format("rocketmq").option("maxBytesPerPartition", bytes_per_split)
        found = digest(reader.load(str(store)))
        assert found == expected, f"{store.name} in {count} splits: {found}, where there should be {expected}"
    seconds = time.monotonic() - begin
    rows, mib = expected["rows"], size / MIB
    print(
        f"{store.name}: {rows:,} rows, {mib:,.1f} MiB, 1 to {most} splits, "
        f"plain {plain_s:.0f} s, in all {seconds:.0f} s",
        flush=True,
    )


def write_rows(store: Path, path: Path) -> None:
    """Write what the plain reader reads to a Parquet file."""
    with pq.ParquetWriter(path, arrow_schema()) as file:
        for batch in batches(store):
            file.write_batch(batch)


def batches(store: Path) -> Iterator[pa.RecordBatch]:
    """Yield the plain reader's rows as Arrow."""
    rows = plain_rows(store)
    while part := list(islice(rows, ROWS_AT_ONCE)):
        for row in part:
            row["properties"] = list(row["properties"].items())
            row |= {name: 1_000 * max(-TIME_MAX_MS, min(row[name], TIME_MAX_MS)) for name in TIMES}
        yield pa.RecordBatch.from_pylist(part, arrow_schema())


def digest(frame: DataFrame) -> Digest:
    """Count rows, and hash each column."""
    hashes = [f.bit_xor(f.xxhash64("physical_offset", value(name))).alias(name) for name in COLUMNS]
    row = frame.agg(f.count("*").alias("rows"), *hashes).first()
    assert row is not None
    return row.asDict()


def value(name: str) -> Column:
    """Return a column as what can be hashed."""
    return f.array_sort(f.map_entries(name)) if name == "properties" else f.col(name)
