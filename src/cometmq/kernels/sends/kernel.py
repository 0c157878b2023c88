"""The kernel of sends: from a socket read's bytes to records, queue entries and responses in one pass."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cometmq.format.record import END_FILE_MIN_BLANK
from cometmq.kernels.compiling.jit import (
    Bytes,
    Longs,
    bytes_in,
    bytes_object,
    bytes_out,
    int64,
    kernel,
    long,
    longs_in,
    longs_out,
    rows_out,
    sends_out,
    types,
)
from cometmq.kernels.sends.answers import answer_size, put_answer
from cometmq.kernels.sends.batches import read_message
from cometmq.kernels.sends.frames import frame_end, read_send
from cometmq.kernels.sends.records import put_entry, put_record, records_size
from cometmq.kernels.sends.rows import SENDS_MAX

__all__ = ["take"]


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
    """Build records, queue entries and responses of sends: see ``sends.SendOps.take``."""
    position = sends_end = int64(start)
    send: Any = sends[0]
    while count < SENDS_MAX:
        end = frame_end(data, position)
        if end < 0:
            return sends_end, int64(len(data)), count, size, answered
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
        if position > sends_end:  # other frames lie between
            return sends_end, position, count, size, answered
        end_size = size + records_size(send, born_host, bounds)
        if end_size + END_FILE_MIN_BLANK > file_room:
            return sends_end, end, count, size, answered
        if end_size > len(records) or answered + answer_size(send, constants, bounds) > len(answers):
            return sends_end, sends_end if count else end, count, size, answered
        row = first_row + count
        message, begin_size, is_usual = send.body_at, size, True
        for i in range(send.message_count):
            send.physical_offset = physical_offset + size
            send.queue_offset = next_offsets[send.queue]
            next_offsets[send.queue] += 1
            if send.is_batch:
                message, is_usual = read_message(data, message, send)
                if not is_usual:
                    next_offsets[send.queue] -= i + 1
                    break
                size = put_record(data, send, data, born_host, constants, bounds, store_time, records, size)
            else:
                size = put_record(data, send, texts, born_host, constants, bounds, store_time, records, size)
            put_entry(send, entries, row + i)
        if not is_usual:  # as if it had not begun
            size, position = begin_size, end
            continue
        count += send.message_count
        if not send.is_oneway:
            answered = put_answer(send, entries, row, texts, constants, bounds, answers, answered)
        position = sends_end = end
    return sends_end, sends_end, count, size, answered
