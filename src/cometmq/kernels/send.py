"""The kernel of sends: from the bytes of a socket read to records, queue entries and answers, in one pass."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cometmq.format.record import END_FILE_MIN_BLANK
from cometmq.kernels.jit import (
    Bytes,
    Longs,
    bytes_in,
    bytes_object,
    bytes_out,
    inlined,
    int64,
    kernel,
    long,
    longs_in,
    longs_out,
    rows_out,
    sends_out,
    types,
)
from cometmq.kernels.send_answers import put_answer
from cometmq.kernels.send_frames import frame_end, read_send
from cometmq.kernels.send_records import put_record, record_size
from cometmq.kernels.sends import ANSWER_SIZE_MAX

__all__ = ["take"]


@inlined
def _put_entry(send: Any, entries: Longs, row: int) -> None:
    entries[row, 0] = send.queue
    entries[row, 1] = send.queue_offset
    entries[row, 2] = send.physical_offset
    entries[row, 3] = send.size
    entries[row, 4] = send.tags_code


@kernel(
    types.UniTuple(long, 5)(
        bytes_in,
        longs_in,
        sends_out,
        bytes_out,
        bytes_out,
        bytes_out,
        longs_out,
        long,
        long,
        bytes_out,
        longs_out,
        longs_out,
        longs_out,
        longs_out,
        rows_out,
        long,
        long,
        long,
        long,
        bytes_object,
        long,
        bytes_object,
        long,
        long,
        long,
    )
)
def take(
    constants: Bytes,
    bounds: Longs,
    sends: NDArray[np.void],
    texts: Bytes,
    records: Bytes,
    answers: Bytes,
    places: Longs,
    body_length_max: int,
    properties_length_max: int,
    names: Bytes,
    rows: Longs,
    slots: Longs,
    cells: Longs,
    next_offsets: Longs,
    entries: Longs,
    first_row: int,
    physical_offset: int,
    file_room: int,
    store_time: int,
    data: Bytes,
    start: int,
    born_host: Bytes,
    count: int,
    size: int,
    answered: int,
) -> Any:
    """Take sends: see ``sends.SendOps.take``."""
    position = sends_end = int64(start)
    while count < len(sends):
        end = frame_end(data, position)
        if end < 0:
            return sends_end, int64(len(data)), count, size, answered
        send: Any = sends[count]
        if not read_send(
            data,
            position,
            end,
            send,
            texts,
            names,
            rows,
            slots,
            cells,
            next_offsets,
            body_length_max,
            properties_length_max,
            places,
        ):
            position = end
            continue
        if position > sends_end:  # there are others between
            return sends_end, position, count, size, answered
        send.size = record_size(send, born_host, bounds)
        if size + send.size + END_FILE_MIN_BLANK > file_room:
            return sends_end, end, count, size, answered
        answer_size = ANSWER_SIZE_MAX + len(constants) + send.key_length
        if size + send.size > len(records) or answered + answer_size > len(answers):
            return sends_end, sends_end if count else end, count, size, answered
        send.physical_offset = physical_offset + size
        send.queue_offset = next_offsets[send.queue]
        next_offsets[send.queue] += 1
        put_record(data, send, texts, born_host, constants, bounds, store_time, records, size)
        _put_entry(send, entries, first_row + count)
        if not send.is_oneway:
            answered = put_answer(send, texts, constants, bounds, answers, answered)
        size += send.size
        count += 1
        position = sends_end = end
    return sends_end, sends_end, count, size, answered
