"""The entries of light queues among the records of a chunk: see ``format.dispatch``."""

from typing import NamedTuple

import numpy as np

from cometmq.format import properties
from cometmq.format.dispatch import LIGHT_QUEUE_ID, light_offsets
from cometmq.kernels.arrays import Ints, Longs
from cometmq.kernels.ops import Dispatch
from cometmq.store.log.log_scan import Chunk
from cometmq.store.queue.queues import QueueKey


class Placed(NamedTuple):
    """Which record of a chunk is where in which queue, in the order of the log.

    Attributes:
        keys: the queues.
        records: int64[n], the numbers of records.
        queues: int32[n] or int64[n], the index in ``keys`` of the queue of each.
        queue_offsets: int64[n], the queue offset of each.
    """

    keys: list[QueueKey]
    records: Longs
    queues: Ints | Longs
    queue_offsets: Longs


def placed(chunk: Chunk, dispatch: Dispatch) -> Placed:
    """Return the place of each record in its own queue, and in its light queues, in the order of the log."""
    records = np.flatnonzero(dispatch.in_queue)
    own = Placed(dispatch.queues, records, dispatch.queue[records], chunk.scan.queue_offset[records])
    if not dispatch.is_light.any():  # nearly always
        return own
    numbers = {key: number for number, key in enumerate(own.keys)}
    rows = [
        (record, numbers.setdefault((name, LIGHT_QUEUE_ID), len(numbers)), queue_offset)
        for record in np.flatnonzero(dispatch.is_light & dispatch.in_queue).tolist()
        for name, queue_offset in light_offsets_of(chunk, dispatch, record).items()
    ]
    both = np.concatenate([np.stack(own[1:], axis=1), np.array(rows, np.int64).reshape(-1, 3)])
    both = both[np.argsort(both[:, 0], kind="stable")]
    return Placed(list(numbers), both[:, 0], both[:, 1], both[:, 2])


def light_offsets_of(chunk: Chunk, dispatch: Dispatch, record: int) -> dict[str, int]:
    """Return the light queues of a record of a chunk, and its queue offset in each."""
    scan, topic = chunk.scan, dispatch.queues[dispatch.queue[record]][0]
    begin = int(scan.properties_position[record])
    stored = chunk.buffer[begin : begin + int(scan.properties_length[record])]
    return light_offsets(topic, properties.decode(stored.data))
