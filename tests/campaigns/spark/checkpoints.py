"""What a query's checkpoint says of its micro-batches: that they are planned, and that they are done."""

import json
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from cometmq.format import layout
from cometmq.spark.live import offsets
from cometmq.store.queue.consume_queue import ENTRY_DTYPE

SOURCE_LINE: Final = 2
"""Of a file of offsets: its version and Spark's own metadata come before the source's offsets."""

Longs = NDArray[np.int64]


def done(checkpoint: Path) -> set[Path]:
    """Return the marks of the micro-batches that are done."""
    return set((checkpoint / "commits").glob("[0-9]*"))


def is_within_batch(checkpoint: Path) -> bool:
    """Return whether a micro-batch was planned that is not done: it will be run again."""
    return len(_planned(checkpoint)) > len(done(checkpoint))


def ends(checkpoint: Path) -> Longs:
    """Return up to where each micro-batch reads: by batch and queue, with what was before the first."""
    by_batch = [_queue_offsets(path) for path in _planned(checkpoint)] or [[0]]
    return np.array([[0] * len(by_batch[0]), *by_batch], np.int64)


def messages(checkpoint: Path) -> Longs:
    """Return the messages of each micro-batch."""
    counts: Longs = np.diff(ends(checkpoint), axis=0).sum(axis=1)
    return counts


def sizes(checkpoint: Path, store: Path, topic: str) -> Longs:
    """Return the bytes that the messages of each micro-batch take in the log."""
    of_batches = ends(checkpoint)
    total = np.zeros(len(of_batches) - 1, np.int64)
    for queue_id, of_queue in enumerate(of_batches.T):
        files = sorted(layout.consume_queue_dir(store, topic, queue_id).iterdir())
        of_records = np.concatenate([np.fromfile(file, ENTRY_DTYPE)["size"] for file in files])
        total += np.diff(np.append(0, np.cumsum(of_records, dtype=np.int64))[of_queue])
    return total


def _planned(checkpoint: Path) -> list[Path]:
    return sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda path: int(path.name))


def _queue_offsets(path: Path) -> list[int]:
    of_queues = offsets.read(str(path), json.loads(path.read_text().splitlines()[SOURCE_LINE]))
    return [of_queues[queue] for queue in sorted(of_queues)]
