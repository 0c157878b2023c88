"""Selecting records by topic and store time."""

from collections.abc import Collection

import numpy as np

from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.ops import Scan
from cometmq.kernels.text.numbering import number_texts
from cometmq.message import Buffer


def select(
    buffer: Buffer | Bytes,
    scan: Scan,
    *,
    topics: Collection[str] | None = None,
    begin_time: int | None = None,
    end_time: int | None = None,
) -> Longs:
    """Select records by topic and store time: see ``ops.Ops.select``."""
    chosen = np.ones(scan.count, np.bool_)
    if begin_time is not None:
        chosen &= scan.store_time >= begin_time
    if end_time is not None:
        chosen &= scan.store_time < end_time
    if topics is not None:
        data = np.frombuffer(buffer, np.uint8)
        numbers = np.empty(scan.count, np.int32)
        firsts = number_texts(
            data, scan.topic_position, scan.topic_length, np.zeros(scan.count, np.int32), numbers
        )
        wanted = {topic.encode("utf-8", "surrogateescape") for topic in topics}
        begins, lengths = scan.topic_position[firsts].tolist(), scan.topic_length[firsts].tolist()
        is_wanted = [
            data[begin : begin + length].tobytes() in wanted
            for begin, length in zip(begins, lengths, strict=True)
        ]
        chosen &= np.array(is_wanted, np.bool_)[numbers]
    return np.flatnonzero(chosen)
