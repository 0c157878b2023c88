"""The compiled operations on queries equal the plain ones, operation by operation.

Of frames in an unusual spelling the compiled ones may leave more: those become commands, to the same effect.
"""

import json
from collections.abc import Sequence

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from tests.kernels.index_files import File, keys_of
from tests.kernels.querying import ROOM, Reader, all_of, frame, new_rows
from tests.kernels.reading import frames_in, stretch
from tests.kit.chosen_records import BEGIN
from tests.kit.index_rows import CONSTANTS, HASH, SLOTS, record_of

from cometmq.format.index import ENTRY_SIZE, IndexEntry
from cometmq.kernels import plain
from cometmq.kernels.arrays import PAGE_SIZE
from cometmq.kernels.frames.fields import FrameKind
from cometmq.kernels.ops import Ops
from cometmq.kernels.pulls.rows import LogBytes
from cometmq.kernels.queries.rows import FOUND_MAX, TEXTS_SIZE, QueryRows, QueryState
from cometmq.wire.frame import with_prefix

NUMBERS = ["0", "1", "-1", "32", "04", "x", "", " 1", "2147483648", "9223372036854775807", "9" * 18, "9" * 19]
VALUES: dict[str, Sequence[str]] = {
    "topic": ["T", "TT", "", "\u0442\u0435\u043c\u0430", 't"', "t" * 250],
    "key": ["k1", "", "gr\u00fcn", "k1 k2", "back\\", "k" * 6, "k" * 256, "jllgvmc"],
    **dict.fromkeys(("maxNum", "beginTimestamp", "endTimestamp", "offset"), NUMBERS),
    "_UNIQUE_KEY_QUERY": ["true", "false", "TRUE", "1", "0", "x", ""],
    "indexType": ["U", "\u00fc"],
}
KEY = {"topic": "T", "key": "k1", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": "9" * 18}
fields = st.lists(st.sampled_from(sorted(VALUES)), max_size=4, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(VALUES[name]) for name in names})
)


def blank(code: int, fields: dict[str, str], opaque: int, is_reversed: bool) -> bytes:
    """Write a frame whose JSON has blanks, and its members in another order."""
    header = {"code": code, "flag": 0, "opaque": opaque, "extFields": fields, "language": "PYTHON"}
    members = dict(reversed(header.items())) if is_reversed else header
    return with_prefix(json.dumps(members, ensure_ascii=False).encode(), b"")


drawn_frames = st.builds(
    lambda base, changes, code, opaque, binary, flag, body: frame(
        code, base | changes, opaque, binary=binary, flag=flag, body=body
    ),
    st.sampled_from([KEY, {"offset": "1234"}]),
    fields,
    st.sampled_from([12, 12, 33, 33, 11, 120, 3, 310]),
    st.integers(-(2**31), 2**31 - 1),
    st.booleans(),
    st.sampled_from([0, 0, 0, 0, 1, 2]),
    st.sampled_from([b"", b"", b"", b"body"]),
) | st.builds(
    blank, st.sampled_from([12, 33, 11]), st.just(KEY | {"offset": "7"}), st.integers(0, 9), st.booleans()
)


@settings(deadline=None)
@given(st.lists(drawn_frames, max_size=10), st.integers(0, 40), st.integers(0, ROOM))
def test_queries_are_read_the_same(compiled: Ops, drawn: list[bytes], cut: int, before: int) -> None:
    readers = [Reader(plain), Reader(compiled)]
    kept: list[bytes] = []
    for one in drawn:
        plainly, compiledly = (reader.reads(one) for reader in readers)
        assert plainly or not compiledly
        event(f"read: {plainly} {compiledly}")
        if plainly is compiledly:
            kept.append(one)
    data = b"".join(kept)
    data = data[: len(data) - cut]
    results = []
    for ops in (plain, compiled):
        queries, frames = new_rows(), frames_in(ops, data)
        queries.count = before
        count = ops.queries.read(frames, 0, stretch(frames, FrameKind.QUERY), queries)
        results.append((count, all_numbers(queries)))
    assert results[0] == results[1]


def all_numbers(queries: QueryRows) -> tuple[object, ...]:
    """Return all that is said of queries."""
    rows = queries.array[: queries.count]
    found = [queries.found(row) for row in range(queries.count)]
    texts = queries.texts.reshape(-1, TEXTS_SIZE)
    sizes = (rows["topic_size"] + rows["key_size"]).tolist()
    return rows.tolist(), found, [bytes(texts[row][:size]) for row, size in enumerate(sizes)]


states = st.sampled_from([*[QueryState.LOOKING] * 5, *QueryState])
times = st.sampled_from([0, 1, 4_000, 9_000, 9_999, 50_000, 2**62])


@settings(deadline=None)
@given(
    keys=st.lists(st.tuples(st.sampled_from([HASH, HASH + SLOTS, 1]), st.integers(0, 9)), max_size=30),
    damage=st.lists(
        st.tuples(
            st.integers(0, 31),
            st.builds(
                IndexEntry,
                st.sampled_from([HASH, 1]),
                st.integers(0, 99),
                st.integers(-1, 5),
                st.sampled_from([-1, 0, 1, 7, 99]),
            ),
        ),
        max_size=2,
    ),
    asked=st.lists(
        st.tuples(
            states,
            st.sampled_from([HASH, HASH + SLOTS, 1, 2]),
            times,
            times,
            st.sampled_from([-1, 0, 1, 3, 30, FOUND_MAX, FOUND_MAX + 1]),
            st.integers(0, 2),
            st.integers(0, 2),
        ),
        max_size=ROOM,
    ),
    cold=st.lists(st.integers(0, 3), max_size=2),
    written=st.integers(1, 40),
    is_held=st.booleans(),
    number=st.integers(0, 2),
    max_count=st.sampled_from([2, 64, 1_000]),
    hops=st.integers(0, 12),
)
def test_keys_are_looked_up_the_same(
    compiled: Ops,
    keys: list[tuple[int, int]],
    damage: list[tuple[int, IndexEntry]],
    asked: list[tuple[int, ...]],
    cold: list[int],
    written: int,
    is_held: bool,
    number: int,
    max_count: int,
    hops: int,
) -> None:
    index = File(1_500, 40)  # so that the slots take more than one page
    if keys:
        stored = np.cumsum([1_000 * seconds for _, seconds in keys]).tolist()
        index.insert(plain, keys_of(*((key, n, 1 + stored[n]) for n, (key, _) in enumerate(keys))))
    for entry, content in damage:
        index.entries[entry * ENTRY_SIZE : (entry + 1) * ENTRY_SIZE] = np.frombuffer(content.pack(), np.uint8)
    resident = all_of(index.data)
    for page in cold:
        resident[page % len(resident)] = 0
    file = index.bytes(written=written, resident=resident, is_held=is_held)
    results = []
    for ops in (plain.queries, compiled.queries):
        queries = new_rows()
        queries.count = len(asked)
        for row, (state, key_hash, begin, end, most, files, count) in zip(queries.rows, asked, strict=False):
            row.is_by_key, row.state, row.key_hash, row.files = 1, state, key_hash, files
            row.begin_time, row.end_time, row.max_count, row.count = begin, end, most, count
        missing = ops.find(file, number, max_count, hops, queries)
        results.append((missing, all_numbers(queries)))
    event(f"missing: {results[0][0]}")
    assert results[0] == results[1]


class Log:
    """Records side by side, some damaged: of some topics and keys."""

    def __init__(self, kinds: Sequence[tuple[str, str, int]], flips: Sequence[tuple[float, int]]) -> None:
        data, self.offsets = bytearray(), []
        for number, (topic, properties, size) in enumerate(kinds):
            self.offsets.append(BEGIN + len(data))
            data += record_of(
                number, len(data), topic=topic, properties=properties.encode(), body=bytes(size)
            )
        for place, bit in flips:
            data[int(place * len(data))] ^= 1 << bit
        self.data = bytes(data)


logs = st.builds(
    Log,
    st.lists(
        st.tuples(
            st.sampled_from(["T", "T", "S"]),
            st.sampled_from(
                ["KEYS\1k1\2", "KEYS\1k0 k1\2", "UNIQ_KEY\1k1\2", "TAGS\1a\2KEYS\1k2\2", "KEYS\1k1"]
            ),
            st.sampled_from([0, 1, 100, 100, PAGE_SIZE]),
        ),
        min_size=1,
        max_size=8,
    ),
    st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 7)), max_size=1),
)
strange = st.sampled_from([0, BEGIN - 1, BEGIN + 1, 2**62, -(2**63), 2**63 - 1])


@settings(deadline=None)
@given(
    log=logs,
    asked=st.lists(
        st.tuples(
            st.sampled_from([*[QueryState.FOUND] * 6, *QueryState]),
            st.integers(-(2**31), 2**31 - 1),
            st.booleans(),
            st.sampled_from(
                [None, ("T", "k1", False), ("T", "k1", True), ("T", "T#a", False), ("S", "k2", False)]
            ),
            st.lists(st.integers(0, 7), max_size=4),
            st.none() | st.none() | st.tuples(st.integers(0, 3), strange),
        ),
        max_size=ROOM,
    ),
    cold=st.lists(st.integers(0, 8), max_size=1),
    room=st.sampled_from([600, 5_000, 1 << 16]),
    confirm=st.sampled_from([0, BEGIN + 200, 1 << 62]),
    first=st.integers(0, 2),
)
def test_queries_are_answered_the_same(
    compiled: Ops,
    log: Log,
    asked: list[tuple[int, int, bool, tuple[str, str, bool] | None, list[int], tuple[int, int] | None]],
    cold: list[int],
    room: int,
    confirm: int,
    first: int,
) -> None:
    resident = all_of(log.data)
    for page in cold:
        resident[page % len(resident)] = 0
    pages = np.frombuffer(resident, np.uint8)
    file = LogBytes(np.frombuffer(log.data, np.uint8), pages, BEGIN, BEGIN + len(log.data))
    results = []
    for ops in (plain.queries, compiled.queries):
        queries, answers = new_rows(), np.zeros(room, np.uint8)
        for state, opaque, is_binary, key, found, other in asked:
            add_query(
                queries, (state, opaque, is_binary), key, [log.offsets[n % len(log.offsets)] for n in found]
            )
            if other is not None and found:
                queries.offsets[queries.count - 1, other[0] % len(found)] = other[1]
        result = ops.answer(queries, CONSTANTS, answers, file, confirm, min(first, len(asked)), 5)
        event(result[2].name)
        results.append((result, all_numbers(queries), answers[: result[1]].tolist()))
    assert results[0] == results[1]


def add_query(
    queries: QueryRows,
    begin: tuple[int, int, bool],
    key: tuple[str, str, bool] | None,
    offsets: Sequence[int],
) -> None:
    """Add a query that has been looked up; by id it has one offset."""
    row, at = queries.rows[queries.count], queries.count * TEXTS_SIZE
    row.state, row.opaque, row.is_binary = begin
    found = sorted(set(offsets), reverse=True)
    if key is not None:
        topic, name, is_unique = key
        row.is_by_key, row.is_unique, row.topic_size, row.key_size = (
            1,
            is_unique,
            len(topic),
            len(name),
        )
        text = (topic + name).encode()
        queries.texts[at : at + len(text)] = np.frombuffer(text, np.uint8)
    else:
        found = found[:1] or [BEGIN]
    row.count = len(found)
    queries.offsets[queries.count, : len(found)] = found
    queries.count += 1
