"""The compiled operations on pulls equal the plain ones, operation by operation.

Of frames in an unusual spelling the compiled ones may leave more: those become commands, to the same effect.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.kernels.pulling import Reader, binary_frame, json_frame
from tests.kit.chosen_records import BEGIN, ROOM, Chosen, record_of

from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import SIZE, pack
from cometmq.kernels import plain
from cometmq.kernels.arrays import PAGE_SIZE
from cometmq.kernels.ops import Ops
from cometmq.kernels.pulls.rows import (
    ANSWER_SIZE_MAX,
    ASK_SIZE,
    CHOSEN_SIZE,
    IS_FILTERED,
    NO_CODES,
    NO_LIMIT,
    NO_NUMBER,
    QUEUE_NUMBER,
    WINDOW_SIZE,
    AnswerRoom,
    Asks,
    KnownEntries,
    LogBytes,
    Pull,
    PullRows,
    ReadOutcome,
    constants_of,
)
from cometmq.kernels.text.key_table import NO_ROW, KeyTable
from cometmq.wire.template import NumbersTemplate

CONSTANTS = constants_of(NumbersTemplate("FOUND", ("a", "b", "c", "d")))
NUMBERS = ["0", "1", "-1", "17", "04", "x", "", " 1", "2147483647", "2147483648", "9" * 18, "9" * 19]
VALUES: dict[str, Sequence[str]] = {
    "consumerGroup": ["group", "other", "", "gr\u00fcppe", 'q"', "x" * 1_000],
    "topic": ["T", "TT", "", "\\u0054"],
    **dict.fromkeys(("queueId", "queueOffset", "maxMsgNums", "commitOffset", "subVersion"), NUMBERS),
    **dict.fromkeys(("suspendTimeoutMillis", "maxMsgBytes"), NUMBERS),
    "sysFlag": ["0", "1", "2", "3", "4", "5", "7", "16", "22", *NUMBERS],
    "subscription": ["*", "TagA || TagB", "", "\u00fc"],
    "expressionType": ["TAG", "SQL92", ""],
    "topiC": ["another"],
}
fields = st.lists(st.sampled_from(sorted(VALUES)), max_size=4, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(VALUES[name]) for name in names})
)


def frame_of(
    frame: Callable[..., bytes], values: dict[str, str], code: int, flag: int, opaque: int, body: bytes
) -> bytes:
    return frame(values, body, code=code, flag=flag, opaque=opaque)


frames = st.builds(
    frame_of,
    st.sampled_from([json_frame, binary_frame]),
    fields,
    st.sampled_from([11, 11, 11, 361, 310]),
    st.sampled_from([0, 0, 0, 0, 1, 2]),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([b"", b"", b"", b"body"]),
)


@settings(deadline=None)
@given(st.lists(st.tuples(frames, st.booleans()), max_size=10), st.integers(0, 40))
def test_pulls_are_read_the_same(compiled: Ops, drawn: list[tuple[bytes, bool]], cut: int) -> None:
    readers = [Reader(plain), Reader(compiled)]
    kept: list[bytes] = []
    for frame, is_learned in drawn:
        plainly, compiledly = (reader.reads(frame) for reader in readers)
        assert plainly or not compiledly
        event(f"read: {plainly} {compiledly}")
        if plainly is compiledly:
            kept.append(frame)
        if compiledly:
            assert [without_place(row) for row in readers[0].rows] == [
                without_place(row) for row in readers[1].rows
            ]
            if readers[0].rows[0].target == NO_ROW:
                assert readers[0].rows == readers[1].rows and readers[0].key() == readers[1].key()
                if is_learned:
                    assert readers[0].learn() == readers[1].learn()
    data = b"".join(kept)
    data = data[: len(data) - cut]
    assert readers[0].read(data) == readers[1].read(data)
    assert list(map(without_place, readers[0].rows)) == list(map(without_place, readers[1].rows))


def without_place(row: Pull) -> Pull:
    """Return what of a row is to be the same: of a known target the place of its key is not."""
    return row if row.target == NO_ROW else row._replace(key_at=0, key_end=0)


offsets = st.sampled_from([-1, 0, 5, 9, 10, 11, 12, 20, 24, 25, 29, 30, 31, 2**62])


@settings(deadline=None)
@given(
    pulls=st.lists(
        st.tuples(
            offsets,
            st.sampled_from([-7, 0, 1, 3, 8, 40, NO_LIMIT]),
            st.sampled_from([99, 100, 5_000, NO_LIMIT]),
            st.sampled_from([NO_ROW, 0, 1, 2, 3]),
        ),
        max_size=8,
    ),
    begin=st.integers(0, 3),
    asked=st.integers(0, 4),
    entries_room=st.integers(0, 20),
)
def test_pulls_are_asked_for_the_same(
    compiled: Ops, pulls: list[tuple[int, int, int, int]], begin: int, asked: int, entries_room: int
) -> None:
    results = []
    for ops in (plain.pulls, compiled.pulls):
        into = PullRows()
        rows = into.array[: len(pulls)]
        for number, (offset, count, size, target) in enumerate(pulls):
            rows[number] = (0, 7, 1, offset, count, size, 3, 0, 0, 2, target, 0, 0)
        table = KeyTable()
        table.rows[:4, QUEUE_NUMBER] = 2, 2, NO_NUMBER, 1
        table.rows[1, IS_FILTERED] = True
        windows = np.zeros((3, WINDOW_SIZE), np.int64)
        windows[2] = 10, 25, SIZE, 11
        entries = b"".join(pack(1000 + n, 100, n) for n in range(9, 25))
        known = KnownEntries(np.array([0, -1, 30]), windows, np.frombuffer(entries, np.uint8))
        limits = np.array((8, 100, 5_000), np.int64)
        asks = Asks(np.zeros((4, ASK_SIZE), np.int64), np.zeros(entries_room * SIZE, np.uint8), limits)
        asks.asked = asked
        done = ops.ask_known(into, min(begin, len(rows)), len(rows), table, known, asks)
        results.append(
            (done, asks.asked, asks.entries_end, rows.tolist(), asks.rows.tolist(), asks.entries.tolist())
        )
    assert results[0] == results[1]


class Log:
    """Records side by side, and entries of them: some damaged, of another place, or of another kind."""

    def __init__(self, sizes: Sequence[int], flips: Sequence[tuple[float, int]]) -> None:
        data, self.entries = bytearray(), []
        for number, size in enumerate(sizes):
            one = record_of(number, len(data), body=bytes(size))
            self.entries.append((BEGIN + len(data), len(one), number % 3))
            data += one
        for place, bit in flips if data else ():
            data[int(place * len(data))] ^= 1 << bit
        self.data = bytes(data)


logs = st.builds(
    Log,
    st.lists(st.sampled_from([0, 1, 100, 100, PAGE_SIZE]), min_size=1, max_size=ROOM),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), max_size=1),
)
strange = st.sampled_from(
    [
        (0, 0x7FFF_FFFF, 0),
        (BEGIN, 10, 0),
        (BEGIN, -1, 0),
        (BEGIN - 1, 99, 0),
        (2**63 - 1, 99, 0),
        (BEGIN, 95, ADDRESS_MAX),
        (BEGIN + (1 << 31), 100, 1),
    ]
)
limits = st.tuples(
    st.sampled_from([1, 2, ROOM]), st.sampled_from([1, 300, 1 << 20]), st.sampled_from([0, BEGIN + 300])
)


@settings(deadline=None)
@given(
    log=logs,
    others=st.lists(st.tuples(st.integers(0, ROOM), strange), max_size=1),
    codes=st.none() | st.lists(st.integers(0, 3), max_size=3),
    cold=st.lists(st.integers(0, 8), max_size=2),
    memory=limits,
    disk=limits,
)
def test_records_are_chosen_the_same(
    compiled: Ops,
    log: Log,
    others: list[tuple[int, tuple[int, int, int]]],
    codes: list[int] | None,
    cold: list[int],
    memory: tuple[int, int, int],
    disk: tuple[int, int, int],
) -> None:
    entries = list(log.entries)
    for at, other in others:
        entries.insert(at, other)
    pages = bytearray(b"\1" * (len(log.data) // PAGE_SIZE + 1))
    for page in cold:
        pages[page % len(pages)] = 0
    wish: dict[str, Any] = {
        "codes": codes,
        "resident": bytes(pages),
        "counts": (memory[0], disk[0]),
        "sizes": (memory[1], disk[1]),
        "near_offset": memory[2],
    }
    one, other_one = (Chosen(ops, log.data, entries[:ROOM], **wish) for ops in (plain.pulls, compiled.pulls))
    event(str(one.outcome))
    assert one.choice == other_one.choice
    if one.outcome is not ReadOutcome.LEFT:
        assert (one.sizes, one.runs, one.missing) == (other_one.sizes, other_one.runs, other_one.missing)


@settings(deadline=None)
@given(
    log=logs,
    asked=st.lists(
        st.tuples(
            st.integers(-(2**31), 2**31 - 1),
            st.integers(0, 1),
            st.integers(0, ROOM),
            st.integers(1, ROOM),
            st.sampled_from([100, 300, 1 << 20]),
            st.sampled_from([(0, NO_CODES), (0, 1), (1, 3)]),
        ),
        max_size=6,
    ),
    other=st.none() | strange,
    cold=st.lists(st.integers(0, 8), max_size=1),
    room=st.sampled_from([600, 5_000, 1 << 16]),
    first=st.integers(0, 2),
)
def test_pulls_are_answered_the_same(
    compiled: Ops,
    log: Log,
    asked: list[tuple[int, int, int, int, int, tuple[int, int]]],
    other: tuple[int, int, int] | None,
    cold: list[int],
    room: int,
    first: int,
) -> None:
    pages = np.ones(len(log.data) // PAGE_SIZE + 1, np.uint8)
    for page in cold:
        pages[page % len(pages)] = 0
    file = LogBytes(np.frombuffer(log.data, np.uint8), pages, BEGIN, BEGIN + len(log.data))
    results = []
    for ops in (plain.pulls, compiled.pulls):
        rows, entries = np.zeros((len(asked) + 1, ASK_SIZE), np.int64), b""
        for row, (opaque, is_binary, offset, count, size, codes) in zip(rows, asked, strict=False):
            own = log.entries[offset : offset + count]
            if other is not None and len(own) > 1:
                own[1] = other
            entries += b"".join(pack(*entry) for entry in own)
            row[:8] = opaque, is_binary, offset, count, size, *codes, len(entries)
            row[-3:-1] = 3, 9
        no_limits, all_entries = np.zeros(3, np.int64), np.frombuffer(entries or b"\0", np.uint8)
        asks = Asks(rows, all_entries, no_limits, np.array([1, 0, 2]))
        asks.asked = len(asked)
        bounds = np.array((file.begin, file.end, BEGIN + 400, 4, 2_000, 3, 1_000), np.int64)
        answers, chosen = np.zeros(room + ANSWER_SIZE_MAX, np.uint8), np.zeros((ROOM, CHOSEN_SIZE), np.int64)
        out = AnswerRoom(answers, chosen, bounds, CONSTANTS)
        result = ops.answer(asks, out, file, min(first, len(asked)), 5)
        event(result[2].name)
        results.append((result, rows.tolist(), out.data[: result[1]].tolist()))
    assert results[0] == results[1]
