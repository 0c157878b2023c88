"""What tasks scan, without Spark."""

import pickle
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from cometmq.format.checksum import Crc
from cometmq.format.delay_level import DelayLevels
from cometmq.format.dispatch import dispatch_of
from cometmq.format.java.java_hash import index_key_hash
from cometmq.format.record import record_at
from cometmq.format.scan import scan
from cometmq.spark.files.splits import log_files, splits
from cometmq.spark.jobs.piece_scan import PieceSeen
from cometmq.spark.jobs.rebuild.entries import (
    KEY_ROW,
    QUEUE_ROW,
    Row,
    Rules,
    batches,
    queue_key,
    scanned,
    topic_bytes,
)
from cometmq.store.log.vouched import ALL

LEVELS = DelayLevels.parse()
RULES = Rules(Crc.BODY, LEVELS, indexed=True)


def rows_of(store: Path, bytes_per_task: int, rules: Rules = RULES) -> list[Row]:
    return [row for split in splits(log_files(store), bytes_per_task) for row in scanned(split, rules, ALL)]


def joined(rows: list[Row], dtype: np.dtype[np.void]) -> NDArray[np.void]:
    in_order = sorted(rows, key=lambda row: row["begin"])
    return np.frombuffer(b"".join(row["data"] for row in in_order), dtype)


@pytest.mark.parametrize("name", ["store-clean", "store-light"])
@pytest.mark.parametrize("bytes_per_task", [10_000, 1 << 30])
def test_rows_hold_what_the_format_says_that_records_put(
    golden: Mapping[str, Path], bytes_per_task: int, name: str
) -> None:
    queues, keys, count = defaultdict(list), [], 0
    for file in log_files(golden[name]):
        data = file.path.read_bytes()
        for head in scan(data, base_offset=file.base_offset):
            entry, count = dispatch_of(record_at(data, head), LEVELS), count + 1
            if entry.in_queue:
                place = (entry.physical_offset, entry.size, entry.tags_code)
                queues[entry.topic, entry.queue_id].append((entry.queue_offset, place))
                for light, queue_offset in entry.light_offsets.items():
                    queues[light, 0].append((queue_offset, place))
            hashes = [index_key_hash(entry.topic, key) for key in entry.keys if entry.in_index]
            keys += [(key_hash, entry.physical_offset, entry.store_time) for key_hash in hashes]
    rows = rows_of(golden[name], bytes_per_task)
    by_queue = defaultdict(list)
    for row in rows:
        if row["kind"] == "queue":
            by_queue[queue_key(row["topic"], row["queue_id"])].append(row)
    assert {key: joined(found, QUEUE_ROW).tolist() for key, found in by_queue.items()} == queues
    assert joined([row for row in rows if row["kind"] == "keys"], KEY_ROW).tolist() == keys
    pieces: list[PieceSeen] = [pickle.loads(row["data"]) for row in rows if row["kind"] == "piece"]
    assert sum(segment.messages for piece in pieces for segment in piece.segments) == count


def test_without_an_index_there_are_no_keys(golden: Mapping[str, Path]) -> None:
    rows = rows_of(golden["store-clean"], 1 << 30, RULES._replace(indexed=False))
    assert {row["kind"] for row in rows} == {"queue", "piece"}


def test_spark_gets_the_rows_of_a_stretch_together() -> None:
    rows = [{"kind": "piece", "begin": begin, "count": count} for begin, count in [(1, 10), (1, 11), (2, 12)]]
    assert [batch.column("count").to_pylist() for batch in batches(rows)] == [[10, 11], [12]]
    assert list(batches([])) == []


def test_a_topic_that_is_no_text_comes_back() -> None:
    topic = b"\xff\xfe".decode("utf-8", "surrogateescape")
    assert queue_key(topic_bytes(topic), 3) == (topic, 3)
