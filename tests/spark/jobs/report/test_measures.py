"""The numbers of each message, without Spark."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from cometmq.format.properties import decode, split_keys
from cometmq.format.record import record_at
from cometmq.format.scan import scan
from cometmq.spark.files.splits import log_files, splits
from cometmq.spark.jobs.report.measures import GATHERED, SCHEMA, measured

EPOCH = datetime.fromtimestamp(0, UTC)


def plain_measures(name: str, store: Path) -> Iterator[dict[str, Any]]:
    """Return the same of a sound store, record by record, as ``format`` defines it."""
    for file in log_files(store):
        data = file.path.read_bytes()
        for head in scan(data, base_offset=file.base_offset):
            record = record_at(data, head)
            properties = decode(record.properties)
            yield {
                "topic": record.topic,
                "queue_id": record.queue_id,
                "unique_id": properties.get("UNIQ_KEY"),
                "keys": split_keys(properties.get("KEYS", "")),
                "store_time": EPOCH + timedelta(milliseconds=record.store_time),
                "store": name,
                "bytes": head.size,
                "body_bytes": len(record.body),
                "latency_ms": record.store_time - record.born_time,
                "physical_offset": record.physical_offset,
                "next_offset": record.queue_offset + 1 if record.sys_flag & 0xC in (0, 8) else None,
            }


@pytest.mark.parametrize("bytes_per_task", [300_000, 1 << 30])
def test_each_message_has_a_row_however_the_log_is_cut(
    golden: Mapping[str, Path], bytes_per_task: int
) -> None:
    store = golden["store-clean"]
    batches = [
        batch for split in splits(log_files(store), bytes_per_task) for batch in measured("a/store", split)
    ]
    assert [row for batch in batches for row in batch.to_pylist()] == list(plain_measures("a/store", store))
    assert batches[0].schema.names == [column.split()[0] for column in SCHEMA.split(", ")]
    assert tuple(batches[0].schema.names[: len(GATHERED)]) == GATHERED
