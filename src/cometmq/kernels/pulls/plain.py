"""The operations on pulls in plain Python: the definition, and what serves until others are loaded."""

from collections.abc import Sequence
from struct import Struct
from typing import Final

import numpy as np

from cometmq.format.checksum import Crc
from cometmq.format.queue_entry import SIZE
from cometmq.kernels.headers.plain import RequestFrames, read_frames
from cometmq.kernels.ops import Bytes, Longs
from cometmq.kernels.pulls.plain_choice import LEFT, LeafChoice, ReadLimits, choose
from cometmq.kernels.pulls.pull_table import KEY_SIZE_MAX, NO_TARGET, PullTable, hash_of
from cometmq.kernels.pulls.rows import (
    ANSWER_END,
    ANSWER_SIZE_MAX,
    ASK_BYTES,
    ASK_COUNT,
    ASK_IS_BINARY,
    ASK_NUMBER,
    ASK_OFFSET,
    ASK_SIZE,
    CODES_AT,
    CODES_END,
    COUNT,
    ENTRIES_END,
    FIRST,
    IS_BINARY,
    KNOWN_END,
    MAX_BYTES,
    MAX_COUNT,
    MAX_OFFSET,
    MIN_OFFSET,
    MISSING_AT,
    MISSING_SIZE,
    NEXT_OFFSET,
    NO_CODES,
    NO_LIMIT,
    NOTHING_TO_COMMIT,
    NUMBER,
    OUTCOME,
    PULL_SIZE,
    QUEUE_OFFSET,
    RECORD_AT,
    RECORD_NUMBER,
    RUN_AT,
    RUN_SIZE,
    STATE,
    TARGET,
    WINDOW_AT,
    WINDOW_MIN_OFFSET,
    AnswerRoom,
    AnswerStop,
    Asks,
    Choice,
    Constants,
    KnownEntries,
    LogBytes,
    PullRows,
    PullState,
    ReadOutcome,
)
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import PullFlag, PullHeader

SUGGESTED_BROKER: Final = 0
"""The broker that answers suggest to pull from next: the master."""

_FRAMES: Final = RequestFrames(
    {RequestCode.PULL_MESSAGE: PullHeader, RequestCode.LITE_PULL_MESSAGE: PullHeader}
)
_PULL: Final = Struct(f"{PULL_SIZE}q")
_ASK: Final = Struct(f"{ASK_SIZE}q")  # a row is packed in a third of the time that numpy takes to set it
_KEY_START: Final = Struct(">iiqiiii")
_ABSENT: Final = -1
_NO_LIMIT: Final = 2**63 - 1
_LEFT: Final = ReadOutcome.LEFT
_DONE: Final = AnswerStop.DONE


class PlainPulls:
    """The plain body of the operations (a ``pulls.PullOps``).

    Args:
        crc: the checksum by which records are checked.
    """

    body = "plain"

    def __init__(self, crc: Crc) -> None:
        self._crc = crc

    def read(
        self, data: bytes, begin: int, end: int, into: PullRows, table: PullTable, /
    ) -> tuple[int, int, int]:
        """Read pulls: see ``pulls.PullOps.read``."""
        found, pulls_end, others_end = read_frames(data, begin, end, len(into.rows), _read_pull)
        rows, keys_end = into.rows.data, 0
        for number, (row, key) in enumerate(found):
            row[TARGET] = table.find(key)
            if row[TARGET] == NO_TARGET:
                into.keys[keys_end : keys_end + len(key)] = np.frombuffer(key, np.uint8)
                row[TARGET + 1 : STATE] = hash_of(key), keys_end, keys_end + len(key)
                keys_end += len(key)
            _PULL.pack_into(rows, number * _PULL.size, *row)
        return len(found), pulls_end, others_end

    def ask_known(
        self, pulls: Longs, begin: int, targets: Longs, known: KnownEntries, asks: Asks, limits: Longs, /
    ) -> int:
        """Ask for what is known: see ``pulls.PullOps.ask_known``."""
        count_max, bytes_min, bytes_max = limits.tolist()
        for number, pull in enumerate(pulls[begin:].tolist(), begin):
            if pull[TARGET] == NO_TARGET:
                return number
            queue, is_filtered = targets[pull[TARGET]].tolist()
            offset, size = pull[QUEUE_OFFSET], pull[MAX_BYTES]
            if queue >= len(known.ends):
                return number
            queue_end = int(known.ends[queue])
            if 0 < offset == queue_end:
                pulls[number, STATE] = PullState.AT_END
                continue
            if is_filtered or not bytes_min <= size <= bytes_max or queue >= len(known.windows):
                return number
            window, wanted = known.windows[queue].tolist(), max(pull[MAX_COUNT], 1)
            end = min(offset + min(wanted, count_max), queue_end)
            first = max(window[FIRST], window[WINDOW_MIN_OFFSET])
            if not first <= offset < end <= window[KNOWN_END]:
                return number
            begin_at, entries_size = asks.entries_end, (end - offset) * SIZE
            if asks.asked == len(asks.rows) or begin_at + entries_size > len(asks.entries):
                return number
            at = window[WINDOW_AT] + (offset - window[FIRST]) * SIZE
            asks.entries_end = begin_at + entries_size
            asks.entries[begin_at : asks.entries_end] = known.entries[at : at + entries_size]
            _ASK.pack_into(
                asks.rows.data,
                asks.asked * _ASK.size,
                *(pull[NUMBER], pull[IS_BINARY], offset, wanted, size, 0, NO_CODES, asks.entries_end),
                *(_LEFT, 0, 0, window[WINDOW_MIN_OFFSET], queue_end, 0),
            )
            asks.asked += 1
            pulls[number, STATE] = PullState.ASKED
        return len(pulls)

    def choose(
        self,
        entries: Bytes,
        codes: Longs | None,
        file: LogBytes,
        limits: Longs,
        queue_offset: int,
        chosen: Longs,
        records: Bytes,
        /,
    ) -> Choice:
        """Choose records, check and copy them: see ``pulls.PullOps.choose``."""
        wanted = None if codes is None else frozenset(codes.tolist())
        within = _within(limits.tolist(), _NO_LIMIT, _NO_LIMIT)
        found = choose(entries.data, wanted, file, within, queue_offset, self._crc)
        for number, record in enumerate(found.chosen):
            chosen[RECORD_AT : RECORD_NUMBER + 1, number] = (
                *(record.offset - file.begin, record.size, queue_offset + record.number),
            )
        for number, run in enumerate(found.runs):
            chosen[RUN_AT : RUN_SIZE + 1, number] = run
        _put_missing(found, file, chosen)
        size = sum([size for _, size in found.runs])
        if size <= len(records):
            data = file.data.data
            _put(records.data, 0, b"".join([data[place : place + size] for place, size in found.runs]))
        counts = len(found.runs), len(found.missing), size
        return Choice(found.outcome, len(found.chosen), found.looked_at, found.last, *counts)

    def answer(
        self, asks: Asks, out: AnswerRoom, file: LogBytes, limits: Longs, first: int, at: int, /
    ) -> tuple[int, int, AnswerStop, int]:
        """Answer pulls: see ``pulls.PullOps.answer``."""
        bounds, answers, data, entries = limits.tolist(), out.data.data, file.data.data, asks.entries.data
        room = len(answers) - ANSWER_SIZE_MAX - len(out.constants.data)
        begin = int(asks.rows[first - 1, ENTRIES_END]) if first else 0
        rows, row, stop, missing_count = asks.rows[first : asks.asked].tolist(), first, _DONE, 0
        for ask in rows:
            ask[OUTCOME], ask[COUNT], ask[ANSWER_END] = _LEFT, 0, at
            own, begin = entries[begin : ask[ENTRIES_END]], ask[ENTRIES_END]
            if own:
                if not file.begin <= int.from_bytes(own[:8], "big") < file.end:
                    stop = AnswerStop.ELSEWHERE
                    break
                codes = None
                if ask[CODES_END] != NO_CODES:
                    codes = frozenset(asks.codes[ask[CODES_AT] : ask[CODES_END]].tolist())
                within = _within(bounds, ask[ASK_COUNT], ask[ASK_BYTES])
                found = choose(own, codes, file, within, ask[ASK_OFFSET], self._crc)
                if found.missing:
                    stop, missing_count = AnswerStop.MISSING, len(found.missing)
                    _put_missing(found, file, out.chosen)
                    break
                size = sum([size for _, size in found.runs])
                if size and at + size > room:
                    stop = AnswerStop.FULL
                    break
                if found is not LEFT:
                    ask[OUTCOME], ask[COUNT] = found.outcome, len(found.chosen)
                    ask[NEXT_OFFSET] = ask[ASK_OFFSET] + found.looked_at
                if size:
                    start = _answer_start(ask, size, out.constants)
                    runs = [data[place : place + size] for place, size in found.runs]
                    at = _put(answers, at, b"".join((start, *runs)))
                    ask[ANSWER_END] = at
            row += 1
        for number, ask in enumerate(rows, first):
            _ASK.pack_into(asks.rows.data, number * _ASK.size, *ask)
        return row, at, stop, missing_count


def _put(out: memoryview, at: int, data: bytes) -> int:
    """Write bytes; returns where the next go."""
    end = at + len(data)
    out[at:end] = data
    return end


def _put_missing(found: LeafChoice, file: LogBytes, chosen: Longs) -> None:
    for number, record in enumerate(found.missing):
        chosen[MISSING_AT : MISSING_SIZE + 1, number] = record.offset - file.begin, record.size


def _read_pull(data: bytes, position: int, end: int) -> tuple[list[int], bytes] | None:
    """Read a frame: the row, and the key of the target; None if it is no pull in a usual spelling."""
    found = _FRAMES.request(data, position, end)
    if found is None:
        return None
    command, header = found
    assert isinstance(header, PullHeader)
    key = key_of(command.code, header)
    return None if key is None else (row_of(command, header, position, end), key)


def row_of(command: Command, header: PullHeader, begin: int = 0, end: int = 0) -> list[int]:
    """Return the row of a pull whose frame is from ``begin`` to ``end``: see ``pulls.FRAME_AT``, …"""
    is_committed = header.sys_flag & PullFlag.COMMIT_OFFSET
    return [
        begin,
        end,
        command.opaque,
        int(command.serialize_type),
        header.queue_offset,
        header.max_message_count,
        NO_LIMIT if header.max_message_bytes is None else header.max_message_bytes,
        header.sys_flag,
        header.commit_offset if is_committed else NOTHING_TO_COMMIT,
        header.suspend_timeout_ms,
        NO_TARGET,
        0,
        0,
        0,
        PullState.ASKED,
    ]


def key_of(code: int, header: PullHeader) -> bytes | None:
    """Return all of a header that says what its pull may be given, None if it is too long.

    That is its code, queue, group and topic, and the filter that is sent along or the version of the one
    that the group has subscribed to. It is filled up to whole words.
    """
    is_sent_along = header.sys_flag & PullFlag.SUBSCRIPTION
    texts: Sequence[str | None] = header.consumer_group, header.topic
    if is_sent_along:
        texts = *texts, header.subscription, header.expression_type
    else:
        texts = *texts, None, None
    parts = [None if text is None else text.encode(errors="surrogatepass") for text in texts]
    start = _KEY_START.pack(
        code << 8 | is_sent_along,
        header.queue_id,
        0 if is_sent_along else header.sub_version,
        *[_ABSENT if part is None else len(part) for part in parts],
    )
    key = b"".join((start, *filter(None, parts)))
    if len(key) + 8 > KEY_SIZE_MAX:
        return None
    return key + bytes(-len(key) % 8)


def _within(bounds: list[int], most_count: int, most_bytes: int) -> ReadLimits:
    """Return the bounds of a read, tightened by what its pull asks for."""
    _, _, near_offset, memory_count, memory_size, disk_count, disk_size = bounds
    if most_count < memory_count or most_count < disk_count:
        memory_count, disk_count = min(most_count, memory_count), min(most_count, disk_count)
    if most_bytes < memory_size or most_bytes < disk_size:
        memory_size, disk_size = min(most_bytes, memory_size), min(most_bytes, disk_size)
    return ReadLimits(near_offset, (memory_count, memory_size), (disk_count, disk_size))


def _answer_start(ask: list[int], body_size: int, constants: Constants) -> bytes:
    """Return the frame that answers what was asked, up to its body: see ``pulls.Constants``."""
    numbers = SUGGESTED_BROKER, ask[NEXT_OFFSET], ask[MIN_OFFSET], ask[MAX_OFFSET]
    return constants.template.start(ask[ASK_NUMBER], numbers, body_size, is_binary=ask[ASK_IS_BINARY])
