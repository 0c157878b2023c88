"""The operation on sends compiled by Numba: ``plain`` says in Python what it does."""

from typing import Any, Final

from cometmq.format.host import SIZED_HOST_SIZE
from cometmq.format.record import END_FILE_MIN_BLANK
from cometmq.kernels.arrays import Bytes, Longs
from cometmq.kernels.compiling.buffers import array_of, byte_at, bytes_of, longs_of
from cometmq.kernels.compiling.jit import inlined, int64, kernel
from cometmq.kernels.compiling.signatures import bytes_object, long, longs_in, none, record_of, types
from cometmq.kernels.frames.compiled import places_of, rows_of, runs_of
from cometmq.kernels.frames.fields import FrameKind
from cometmq.kernels.frames.rows import PLACES, ROWS, RUNS, Frames
from cometmq.kernels.sends import rows as r
from cometmq.kernels.sends.answers import answer_size, put_answer
from cometmq.kernels.sends.batches import read_message
from cometmq.kernels.sends.frames import read_send, topics_of
from cometmq.kernels.sends.records import put_entry, put_record, records_size
from cometmq.kernels.sends.rows import SendBatch

__all__ = ["encode"]

_SEND: Final = int(FrameKind.SEND)


_sends_of = array_of(record_of(r.SEND))
_entries_of = array_of(types.int64, r.ENTRY_COLUMNS)


@inlined
def _put_messages(
    send: Any,
    texts: Bytes,
    constants: Bytes,
    numbers: Longs,
    next_offsets: Longs,
    entries: Any,
    data: Bytes,
    hosts: Bytes,
    host_at: int,
    records: Bytes,
) -> Any:
    """Write the records and entries of a send; return where they end, -1 if one of its messages is rare."""
    bounds, end = numbers[r.BOUNDS :], numbers[r.RECORDS_END]
    time = numbers[r.STORE_TIME]
    row = numbers[r.FIRST_ROW] + numbers[r.MESSAGE_COUNT]
    message = send.body_at
    for i in range(send.message_count):
        send.physical_offset = numbers[r.BEGIN_OFFSET] + end
        send.queue_offset = next_offsets[send.queue]
        next_offsets[send.queue] += 1
        if send.is_batch:
            message, is_usual = read_message(data, message, send)
            if not is_usual:
                next_offsets[send.queue] -= i + 1
                return int64(-1)
            end = put_record(data, send, data, hosts, host_at, constants, bounds, time, records, end)
        else:
            end = put_record(data, send, texts, hosts, host_at, constants, bounds, time, records, end)
        put_entry(send, entries, row + i)
    return end


@kernel(none(bytes_object, long, longs_in, longs_in, longs_in, bytes_object))
def encode_sends(
    data: Bytes, read_count: int, frames: Longs, batch: Longs, topics: Longs, hosts: Bytes
) -> None:
    """Encode the usual sends of all runs: see ``encode``."""
    runs, rows, places = runs_of(frames, RUNS), rows_of(frames, ROWS), places_of(frames, PLACES)
    constants, numbers = bytes_of(batch, r.CONSTANTS), longs_of(batch, r.NUMBERS)
    sends, room = _sends_of(batch, r.SENDS), bytes_of(batch, r.ROOM)
    next_offsets, entries = longs_of(batch, r.NEXT_OFFSETS), _entries_of(batch, r.ENTRIES)
    run_ends = longs_of(batch, r.RUN_ENDS)
    answers_at = numbers[r.RECORDS_MAX]
    texts_at = answers_at + numbers[r.ANSWERS_MAX]
    records, answers, texts = room[:answers_at], room[answers_at:texts_at], room[texts_at:]
    bounds, targets = numbers[r.BOUNDS :], topics_of(topics)
    send: Any = sends[0]
    run_count = int64(0)
    for number in range(read_count):
        run = runs[number]
        if run.kind != _SEND:
            continue
        host_at = run_count * SIZED_HOST_SIZE
        run.done, run.commands_end = run.first, run.last
        for i in range(run.first, run.last):
            if numbers[r.MESSAGE_COUNT] >= r.SENDS_MAX:
                run.commands_end = run.done
                break
            if not read_send(data, rows[i], places[i], send, texts, targets, next_offsets, numbers):
                continue
            if i > run.done:  # others lie between
                run.commands_end = i
                break
            records_end = numbers[r.RECORDS_END] + records_size(send, int64(byte_at(hosts, host_at)), bounds)
            if records_end + END_FILE_MIN_BLANK > numbers[r.FILE_ROOM]:
                run.commands_end = i + 1
                break
            answers_end = numbers[r.ANSWERS_END] + answer_size(send, constants, bounds)
            if records_end > len(records) or answers_end > len(answers):
                run.commands_end = run.done if numbers[r.MESSAGE_COUNT] else i + 1
                break
            records_end = _put_messages(
                send, texts, constants, numbers, next_offsets, entries, data, hosts, host_at, records
            )
            if records_end < 0:
                continue
            if not send.is_oneway:
                row = numbers[r.FIRST_ROW] + numbers[r.MESSAGE_COUNT]
                numbers[r.ANSWERS_END] = put_answer(
                    send.opaque,
                    send.is_binary,
                    0,
                    (send, entries, row, texts, constants, bounds),
                    constants,
                    bounds,
                    answers,
                    numbers[r.ANSWERS_END],
                )
            numbers[r.RECORDS_END] = records_end
            numbers[r.MESSAGE_COUNT] += send.message_count
            numbers[r.SEND_COUNT] += 1
            run.done = i + 1
        run_ends[run_count] = numbers[r.ANSWERS_END]
        run_count += 1


def encode(batch: SendBatch, frames: Frames, hosts: bytes, /) -> None:
    """Encode the usual sends of all runs of sends: see ``rows.SendOps.encode``."""
    _encode(
        frames.data,
        frames.read_count,
        frames.table.numbers,
        batch.table.numbers,
        batch.topics.table.numbers,
        hosts,
    )


_encode: Any = encode_sends  # to Numba the bytes that sockets give are no array
