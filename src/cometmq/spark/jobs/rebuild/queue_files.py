"""Write the ConsumeQueue files of many queues in one task, queue after queue, by the store's own code.

Files are written in a directory of the task's attempt. A queue that is complete, and on the disk, is renamed
to its place: it is there whole or not at all, even if a process is killed; of two attempts at it one stays.
"""

import errno
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple
from uuid import uuid4

import msgspec
import numpy as np

from cometmq.format import layout
from cometmq.format.delay_level import DelayLevels
from cometmq.io.files import Disk, FileLayer
from cometmq.io.open_files import OpenFiles
from cometmq.spark.jobs.rebuild.entries import QUEUE_ROW
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.queues import QueueKey, Queues
from cometmq.store.recovery.rebuild import PENDING_MAX, remove_tree
from cometmq.store.recovery.replay import Gap, Replay

ATTEMPTS: Final = "attempts"
GAPS: Final = "gaps"
TOGETHER: Final = 64
"""Queues that are synced and renamed at once."""


class QueuePart(NamedTuple):
    """Entries of one queue (of QUEUE_ROW), in the order of the log."""

    key: QueueKey
    data: bytes


def write_queues(
    parts: Iterable[QueuePart], building: Path, file_size: int, deleted: dict[str, int]
) -> Iterator[QueueKey]:
    """Write the queues of ``parts``, which are sorted by queue; yield each that is complete.

    Args:
        building: the directory in which ``consumequeue/`` is built.
        file_size: length of a ConsumeQueue file.
        deleted: by topic, the CommitLog offset before which its records are those of a deleted topic.

    Raises OSError; complete queues stay.
    """
    layer = Disk()
    with attempt(layer, building) as directory:
        files = OpenFiles(layer, writable=True)
        try:
            queues = Queues(files, directory, file_size)
            replay = Replay(queues, None, DelayLevels(()), deleted=deleted)
            waiting: list[QueueKey] = []
            for key, of_queue in groupby(parts, key=lambda part: part.key):
                _put(replay, queues, of_queue)
                waiting.append(key)
                if len(waiting) == TOGETHER:
                    yield from _complete(layer, queues, replay, waiting, building)
                    waiting = []
            yield from _complete(layer, queues, replay, waiting, building)
        finally:
            files.close()


@contextmanager
def attempt(layer: FileLayer, building: Path) -> Iterator[Path]:
    """Create a directory for this attempt, which is removed behind the block."""
    directory = building / ATTEMPTS / uuid4().hex
    layer.make_directory(directory, durable=False)
    try:
        yield directory
    finally:
        remove_tree(layer, directory)


def put_into_place(layer: FileLayer, made: Path, place: Path) -> None:
    """Rename an attempt's files to their place, unless another attempt has done so. Raises OSError."""
    layer.make_directory(place.parent)
    try:
        layer.rename(made, place)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise


def _put(replay: Replay, queues: Queues, parts: Iterable[QueuePart]) -> None:
    pending = 0
    for part in parts:
        rows = np.frombuffer(part.data, QUEUE_ROW)
        replay.put(part.key, rows["queue_offset"], rows["entry"])
        pending += len(part.data)
        if pending > PENDING_MAX:
            queues.write_back()
            pending = 0


def _complete(
    layer: FileLayer, queues: Queues, replay: Replay, keys: list[QueueKey], building: Path
) -> list[QueueKey]:
    """Sync the queues, then rename them to their places."""
    queues.write_back()
    found = [queues.find(*key) for key in keys]
    made = [queue for queue in found if queue is not None and queue.chain.starts]
    layer.sync_all(path for queue in made for path in _files_of(queue))
    _save_gaps(layer, building, [gap for gap in replay.gaps if gap[:2] in set(keys)])
    for queue in made:
        place = layout.consume_queue_dir(building, queue.topic, queue.queue_id)
        put_into_place(layer, queue.chain.directory, place)
    return [(queue.topic, queue.queue_id) for queue in found if queue is not None]


def _files_of(queue: ConsumeQueue) -> list[Path]:
    return [*map(queue.chain.path, queue.chain.starts), queue.chain.directory]


def _save_gaps(layer: FileLayer, building: Path, gaps: list[Gap]) -> None:
    if gaps:
        layer.make_directory(building / GAPS)
        layer.save(building / GAPS / f"{uuid4().hex}.json", msgspec.json.encode(gaps))


def load_gaps(layer: FileLayer, building: Path) -> list[Gap]:
    """Return the gaps in the queues that were written, sorted by topic and queue."""
    names = layer.names(building / GAPS)
    found = (msgspec.json.decode(layer.load(building / GAPS / name), type=list[Gap]) for name in names)
    return sorted({gap for gaps in found for gap in gaps})
