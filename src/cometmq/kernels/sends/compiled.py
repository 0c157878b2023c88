"""The operation on sends compiled by Numba: ``plain`` says in Python what it does."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from cometmq.format.record import END_FILE_MIN_BLANK
from cometmq.kernels.compiling.jit import (
    Bytes,
    Longs,
    bytes_in,
    bytes_object,
    bytes_out,
    inlined,
    int64,
    kernel,
    long,
    longs_out,
    rows_out,
    sends_out,
    types,
)
from cometmq.kernels.headers.compiled import frame_end
from cometmq.kernels.sends.answers import answer_size, put_answer
from cometmq.kernels.sends.batches import read_message
from cometmq.kernels.sends.frames import read_send
from cometmq.kernels.sends.records import put_entry, put_record, records_size
from cometmq.kernels.sends.rows import (
    ANSWERS_END,
    ANSWERS_MAX,
    BEGIN_OFFSET,
    BOUNDS,
    DATA_AT,
    FILE_ROOM,
    FIRST_ROW,
    MESSAGE_COUNT,
    RECORDS_END,
    RECORDS_MAX,
    SEND_COUNT,
    SENDS_MAX,
    STORE_TIME,
    SendBatch,
)

__all__ = ["body", "encode"]

body: Final = "compiled"


@inlined
def _put_messages(
    send: Any,
    texts: Bytes,
    constants: Bytes,
    numbers: Longs,
    next_offsets: Longs,
    entries: Any,
    data: Bytes,
    born_host: Bytes,
    records: Bytes,
) -> Any:
    """Write the records and entries of a send; return where they end, -1 if one of its messages is rare."""
    bounds, end = numbers[BOUNDS:], numbers[RECORDS_END]
    row = numbers[FIRST_ROW] + numbers[MESSAGE_COUNT]
    message = send.body_at
    for i in range(send.message_count):
        send.physical_offset = numbers[BEGIN_OFFSET] + end
        send.queue_offset = next_offsets[send.queue]
        next_offsets[send.queue] += 1
        if send.is_batch:
            message, is_usual = read_message(data, message, send)
            if not is_usual:
                next_offsets[send.queue] -= i + 1
                return int64(-1)
            end = put_record(
                data, send, data, born_host, constants, bounds, numbers[STORE_TIME], records, end
            )
        else:
            end = put_record(
                data, send, texts, born_host, constants, bounds, numbers[STORE_TIME], records, end
            )
        put_entry(send, entries, row + i)
    return end


@kernel(
    types.UniTuple(long, 3)(
        *(bytes_in, longs_out, sends_out, longs_out, bytes_out),
        *(bytes_out, rows_out, longs_out, longs_out, rows_out),
        *(bytes_object, bytes_object),
    )
)
def encode_sends(
    constants: Bytes,
    numbers: Longs,
    sends: NDArray[np.void],
    places: Longs,
    room: Bytes,
    names: Bytes,
    slots: Any,
    cells: Longs,
    next_offsets: Longs,
    entries: Any,
    data: Bytes,
    born_host: Bytes,
) -> Any:
    """Encode the usual sends of a read: see ``encode``."""
    answers_at = numbers[RECORDS_MAX]
    texts_at = answers_at + numbers[ANSWERS_MAX]
    records, answers, texts = room[:answers_at], room[answers_at:texts_at], room[texts_at:]
    bounds = numbers[BOUNDS:]
    position = sends_end = numbers[DATA_AT]
    send: Any = sends[0]
    while numbers[MESSAGE_COUNT] < SENDS_MAX:
        end = frame_end(data, position)
        if end < 0:
            return sends_end, int64(len(data)), numbers[ANSWERS_END]
        if not read_send(
            data, position, end, send, texts, places, names, slots, cells, next_offsets, numbers
        ):
            position = end
            continue
        if position > sends_end:  # other frames lie between
            return sends_end, position, numbers[ANSWERS_END]
        records_end = numbers[RECORDS_END] + records_size(send, born_host, bounds)
        if records_end + END_FILE_MIN_BLANK > numbers[FILE_ROOM]:
            return sends_end, end, numbers[ANSWERS_END]
        answers_end = numbers[ANSWERS_END] + answer_size(send, constants, bounds)
        if records_end > len(records) or answers_end > len(answers):
            others_end = sends_end if numbers[MESSAGE_COUNT] else end
            return sends_end, others_end, numbers[ANSWERS_END]
        records_end = _put_messages(
            send, texts, constants, numbers, next_offsets, entries, data, born_host, records
        )
        position = end
        if records_end < 0:
            continue
        if not send.is_oneway:
            row = numbers[FIRST_ROW] + numbers[MESSAGE_COUNT]
            numbers[ANSWERS_END] = put_answer(
                send, entries, row, texts, constants, bounds, answers, numbers[ANSWERS_END]
            )
        numbers[RECORDS_END] = records_end
        numbers[MESSAGE_COUNT] += send.message_count
        numbers[SEND_COUNT] += 1
        sends_end = end
    return sends_end, sends_end, numbers[ANSWERS_END]


def encode(batch: SendBatch, data: bytes, begin: int, born_host: bytes, /) -> tuple[int, int, int]:
    """Encode the usual sends of a read: see ``rows.SendOps.encode``."""
    batch.values[DATA_AT] = begin
    topics = batch.topics
    ends: tuple[int, int, int] = _encode(
        batch.constants.data,
        batch.numbers,
        batch.send,
        batch.places,
        batch.room,
        topics.names,
        topics.slots,
        topics.cells,
        batch.next_offsets,
        batch.entries,
        data,
        born_host,
    )
    return ends


_encode: Any = encode_sends  # to Numba the bytes that sockets give are no array
