"""Reports of topics: volumes to draw, hot keys, and measures that are counted plainly."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cometmq.format.properties import decode, split_keys
from cometmq.format.record import record_at
from cometmq.format.scan import scan
from cometmq.spark.files.splits import log_files
from cometmq.spark.jobs.report.buckets import HOUR_MS, Buckets
from cometmq.spark.jobs.report.hot import HotQueue
from cometmq.spark.jobs.report.report import KeyCount, Report, Spread, TopicReport, Volume

HOUR = 1_769_850_000_000
"""2026-01-31 09:00 UTC."""
FOUR_HOURS = Buckets(HOUR, HOUR_MS, 4)


def volume(
    topic: str = "orders", hour: int = 0, queue_id: int = 0, messages: int = 2, p99: int = 3
) -> Volume:
    return Volume(
        store="a/store",
        topic=topic,
        queue_id=queue_id,
        bucket=HOUR + hour * HOUR_MS,
        messages=messages,
        bytes=100 * messages,
        body_bytes=Spread(1, 2, 3, 4),
        latency_ms=Spread(-7, 1, p99, 300),
    )


def topic_report(topic: str = "orders", *hot_queues: HotQueue) -> TopicReport:
    return TopicReport(
        topic=topic,
        messages=2,
        bytes=200,
        body_bytes=Spread(1, 2, 3, 4),
        latency_ms=Spread(1, 2, 3, 4),
        keys=0,
        duplicate_keys=0,
        repeated_ids=0,
        hot_keys=[],
        hot_queues=list(hot_queues),
    )


def report(volumes: list[Volume], topics: list[TopicReport], buckets: Buckets = FOUR_HOURS) -> Report:
    return Report(["a/store"], volumes, topics, buckets=buckets)


def with_hot(topic: TopicReport, *hot_keys: KeyCount) -> TopicReport:
    return TopicReport(
        **{name: getattr(topic, name) for name in topic.__struct_fields__} | {"hot_keys": list(hot_keys)}
    )


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
