"""How fast the kernels are, with their plain twins beside them.

    python -m benches.bench_kernels [records]

All on one core, on records in memory: 1 KiB ones and small ones. Each figure is the best of some runs, for
what disturbs a run only makes it slower. The plain operations get fewer records.
"""

import random
import sys
import time
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from cometmq import kernels
from cometmq.format.checksum import Crc
from cometmq.format.delay_level import DelayLevels
from cometmq.format.host import pack_host
from cometmq.format.index import ENTRY_SIZE, slot_position
from cometmq.format.record import Record, encode
from cometmq.kernels import plain
from cometmq.kernels.arrays import PAGE_SIZE
from cometmq.kernels.ops import Ops, Scan

RECORDS: Final = 200_000
PLAIN_PART: Final = 50
"""The plain operations get one record of so many."""
RUNS: Final = 7
BODY_SIZES: Final = (128, 1024)
QUEUES: Final = 64
SLOT_COUNT: Final = 5_000_000  # RocketMQ's default
HOST: Final = pack_host("10.0.0.1", 10911)
DELAY_LEVELS: Final = DelayLevels.parse()
FEW_COLUMNS: Final = ("topic", "queue_id", "queue_offset", "store_time", "body")
ALL_COLUMNS: Final = (*FEW_COLUMNS, "unique_id", "tags", "keys", "properties", "born_host", "store_host")


class Log(NamedTuple):
    """Records back to back."""

    data: bytes
    scan: Scan


def main() -> None:
    """Run all; print a table for each size of body."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS
    compiled = kernels.load()
    for body_size in BODY_SIZES:
        log, small = log_of(count, body_size, compiled), log_of(count // PLAIN_PART, body_size, compiled)
        print(f"\n{count:,} records of {len(log.data) // count} bytes, bodies of {body_size}")
        print(f"{'':<34}{'compiled':>26}{'plain':>26}{'ratio':>8}")
        for name, operation in OPERATIONS.items():
            fast, slow = (measure(operation, ops, of) for ops, of in ((compiled, log), (plain, small)))
            rates = "".join(f"{per_record(s, of):>26}" for s, of in ((fast, log), (slow, small)))
            print(f"{name:<34}{rates}{slow / small.scan.count / fast * log.scan.count:>8.0f}")


def log_of(count: int, body_size: int, ops: Ops) -> Log:
    """Build a log as applications fill it: a unique id, tags, a key, and what clients and broker add."""
    draw = random.Random(body_size)
    parts, at = [], 0
    for number in range(count):
        properties = (
            f"MSG_REGION\1DefaultRegion\2UNIQ_KEY\1{number:032X}\2CLUSTER\1DefaultCluster\2"
            f"TAGS\1Tag{number % 5}\2KEYS\1order-{draw.randrange(count)}\2WAIT\1true\2TRACE_ON\1true\2"
        )
        record = Record(
            topic=f"Orders{number % QUEUES // 8}",
            body=draw.randbytes(body_size),
            properties=properties.encode(),
            queue_id=number % 8,
            queue_offset=number // QUEUES,
            physical_offset=at,
            flag=0,
            sys_flag=0,
            born_time=1_700_000_000_000 + number,
            born_host=pack_host("10.0.0.2", 50_000 + number % 100),
            store_time=1_700_000_000_001 + number,
            store_host=HOST,
        )
        parts.append(encode(record))
        at += len(parts[-1])
    data = b"".join(parts)
    return Log(data, ops.scan(data, base_offset=0))


def measure(operation: Callable[[Ops, Log], Callable[[], object]], ops: Ops, log: Log) -> float:
    """Return the seconds of the best run; what each run prepares is not counted."""
    best = float("inf")
    for _ in range(RUNS):
        run = operation(ops, log)
        started = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - started)
    return best


def per_record(seconds: float, log: Log) -> str:
    """Format the rate, in records and in bytes of the log."""
    return f"{log.scan.count / seconds / 1e6:.3f} M/s {len(log.data) / seconds / 1e6:,.0f} MB/s"


def crc(ops: Ops, log: Log) -> Callable[[], object]:
    """Checksum everything."""
    return lambda: ops.crc32(log.data)


def scan_with_crc(ops: Ops, log: Log) -> Callable[[], object]:
    """Scan as a recovery does."""
    return lambda: ops.scan(log.data, base_offset=0)


def scan_without_crc(ops: Ops, log: Log) -> Callable[[], object]:
    """Scan as a dispatch does."""
    return lambda: ops.scan(log.data, base_offset=0, crc=Crc.NONE)


def dispatch(ops: Ops, log: Log) -> Callable[[], object]:
    """Read queues, tags and keys."""
    return lambda: ops.dispatch(log.data, log.scan, DELAY_LEVELS)


def index_insert(ops: Ops, log: Log) -> Callable[[], object]:
    """Insert all keys into an empty index of the default size."""
    found = kernels.load().dispatch(log.data, log.scan, DELAY_LEVELS)
    image = np.zeros(slot_position(SLOT_COUNT), np.uint8)
    dirty = np.zeros(-(-len(image) // PAGE_SIZE), np.bool_)
    count = len(found.key_hash)
    entries = np.ones(count * ENTRY_SIZE, np.uint8)  # ones, so that the memory is there
    offsets, times = log.scan.physical_offset[found.key_record], log.scan.store_time[found.key_record]
    return lambda: ops.index_insert(
        image, dirty, entries, found.key_hash, offsets, times, entry_count=count + 1
    )


def few_columns(ops: Ops, log: Log) -> Callable[[], object]:
    """Gather what most queries ask for."""
    rows = np.arange(log.scan.count)
    return lambda: ops.arrow(log.data, log.scan, rows, FEW_COLUMNS)


def all_columns(ops: Ops, log: Log) -> Callable[[], object]:
    """Gather all that is text."""
    rows = np.arange(log.scan.count)
    return lambda: ops.arrow(log.data, log.scan, rows, ALL_COLUMNS)


def scan_to_arrow(ops: Ops, log: Log) -> Callable[[], object]:
    """Scan, select and convert as a Spark task does."""

    def run() -> object:
        scan = ops.scan(log.data, base_offset=0)
        return ops.arrow(log.data, scan, ops.select(log.data, scan), FEW_COLUMNS)

    return run


OPERATIONS: Final[dict[str, Callable[[Ops, Log], Callable[[], object]]]] = {
    "CRC-32 of all bytes": crc,
    "scan without CRC": scan_without_crc,
    "scan with CRC": scan_with_crc,
    "dispatch": dispatch,
    "index insert (3 keys each)": index_insert,
    f"arrow, {len(FEW_COLUMNS)} columns": few_columns,
    f"arrow, {len(ALL_COLUMNS)} columns": all_columns,
    f"scan with CRC to {len(FEW_COLUMNS)} columns": scan_to_arrow,
}

if __name__ == "__main__":
    main()
