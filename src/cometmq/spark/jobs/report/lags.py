"""Compute the lag of a store's consumer groups from their committed offsets and the ends of queues."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from cometmq.io.files import FileLayer
from cometmq.spark.jobs.report.config_table import load_table

TABLE: Final = "consumerOffset"
SEPARATOR: Final = "@"
"""Separates topic and group; no name can hold it."""


class Lag(msgspec.Struct, frozen=True):
    """The messages of a topic behind a group's committed offsets, in all queues of a store."""

    store: str
    group: str
    topic: str
    messages: int


def lags(
    store: str, committed: Mapping[str, Mapping[int, int]], ends: Mapping[tuple[str, int], int]
) -> list[Lag]:
    """Return the lag of each group and topic, the longest first.

    Args:
        committed: queue offsets by ``topic@group`` and queue id.
        ends: the queue offset behind the last message, by topic and queue id. A missing queue has no
            messages.
    """
    behind: Counter[tuple[str, str]] = Counter()
    for name, offsets in committed.items():
        topic, _, group = name.partition(SEPARATOR)
        behind[group, topic] += sum(
            max(ends.get((topic, queue_id), 0) - offset, 0)
            for queue_id, offset in offsets.items()
            if offset >= 0  # a broker ignores others, too
        )
    found = [Lag(store, group, topic, messages) for (group, topic), messages in behind.items()]
    return sorted(found, key=lambda lag: (-lag.messages, lag.group, lag.topic))


def load_committed(layer: FileLayer, root: Path) -> dict[str, dict[int, int]]:
    """Load committed offsets by ``topic@group`` and queue id; empty if the table is unreadable."""
    return load_table(layer, root, TABLE, _OffsetsFile).offsets


class _OffsetsFile(msgspec.Struct):
    offsets: dict[str, dict[int, int]] = msgspec.field(name="offsetTable", default_factory=dict)
