"""What the operations on queries promise, whichever body serves: chains, answers, and what they touch."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.index_files import File, keys_of
from tests.kernels.querying import Reader, all_of, by_id, by_key
from tests.kit.chosen_records import BEGIN
from tests.kit.index_rows import BY_ID, BY_KEY, CONSTANTS, ENTRIES, HASH, SLOTS, record_of

from cometmq.format.dispatch import KeyKind, has_key
from cometmq.format.index import ENTRY_SIZE, IndexEntry
from cometmq.format.record import MAGIC_V1, MAGIC_V2, decode
from cometmq.kernels import plain
from cometmq.kernels.arrays import PAGE_SIZE
from cometmq.kernels.pulls.rows import AnswerStop, LogBytes
from cometmq.kernels.queries.rows import (
    ANSWER_SIZE_MAX,
    FOUND_MAX,
    HOPS_MAX,
    QueryOps,
    QueryState,
    hash_query,
)
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command, SerializeType
from cometmq.wire.frame import encode as encode_frame

ANSWERED, FOUND, LEFT, LOOKING = QueryState.ANSWERED, QueryState.FOUND, QueryState.LEFT, QueryState.LOOKING
MISSING, NOTHING = QueryState.MISSING, QueryState.NOTHING
SECOND = 1_000


def test_constants_lie_side_by_side() -> None:
    constants = CONSTANTS.data.tobytes()
    found = [constants[begin:end] for begin, end in pairwise(CONSTANTS.bounds.tolist())]
    assert found == [*BY_ID.around(()), *BY_KEY.around((7, 8))]
    assert b"".join(found) == constants


def test_a_hash_is_a_query_that_is_looked_up(query_ops: QueryOps) -> None:
    query = hash_query(HASH, 5, 10_000, 3)
    index = index_of((HASH, 1, 1_000), (HASH, 2, 9_000), (HASH, 3, 20_000))
    assert query_ops.find(index.bytes(), 0, 3, HOPS_MAX, query) == 0
    assert query.found(0) == [2, 1]
    for key_hash, found in ((HASH + 1, []), (HASH, [2, 1])):
        query.ask(key_hash, 5, 10_000, 3)  # the next one begins anew
        assert query_ops.find(index.bytes(), 0, 3, HOPS_MAX, query) == 0
        assert query.found(0) == found


def index_of(*keys: tuple[int, int, int]) -> File:
    """Build an index file of keys' hashes, offsets and times."""
    file = File(SLOTS, ENTRIES)
    assert file.insert(plain, keys_of(*keys)) == len(keys)
    return file


class LookUp(NamedTuple):
    """What became of a query."""

    state: int
    found: list[int]
    missing: tuple[int, int]


def look_up(
    ops: QueryOps,
    index: File,
    changes: dict[str, str] | None = None,
    *,
    max_count: int = FOUND_MAX,
    **how: Any,
) -> LookUp:
    """Look for a key in one file: see ``File.bytes``."""
    reader = Reader(plain)
    assert reader.reads(by_key(changes))
    missing = ops.find(index.bytes(**{"is_held": False} | how), 0, max_count, HOPS_MAX, reader.queries)
    state, *place = reader.row("state", "place", "place_end")
    assert missing == (state == MISSING)
    return LookUp(state, reader.queries.found(0), (place[0], place[1]))


@settings(deadline=None)
@given(
    keys=st.lists(
        st.tuples(st.sampled_from([HASH, HASH + SLOTS, 1, 2]), st.integers(1, 9)), min_size=1, max_size=60
    ),
    begin=st.integers(0, 300),
    length=st.integers(0, 300),
    count=st.integers(1, FOUND_MAX),
    written=st.integers(1, 61),
)
def test_a_key_is_found_that_was_stored_within_the_time(
    query_ops: QueryOps, keys: list[tuple[int, int]], begin: int, length: int, count: int, written: int
) -> None:
    times = np.cumsum([seconds * SECOND for _, seconds in keys]).tolist()
    stored = [(key, 100 * n, time) for n, ((key, _), time) in enumerate(zip(keys, times, strict=True))]
    index = index_of(*stored)
    begin, end = begin * SECOND, (begin + length) * SECOND
    asked = {"beginTimestamp": str(begin), "endTimestamp": str(end), "maxNum": str(count)}
    state, found, _ = look_up(query_ops, index, asked, written=written)
    right = [offset for key, offset, time in reversed(stored) if key == HASH and begin <= time <= end]
    assert found == right[:count]
    assert state == (FOUND if times[0] < begin or len(found) >= count else LOOKING)


def test_a_query_is_looked_up_in_a_file_once(query_ops: QueryOps) -> None:
    index, reader = index_of((HASH, 100, 9_000)), Reader(plain)
    assert reader.reads(by_key({"beginTimestamp": "9000"}))
    for number, files in [(0, 1), (0, 1), (2, 1), (1, 2)]:
        assert query_ops.find(index.bytes(), number, FOUND_MAX, HOPS_MAX, reader.queries) == 0
        assert reader.row("files", "count", "state") == [files, files, LOOKING]


def test_bytes_that_may_not_be_in_memory_are_asked_for_and_not_touched(query_ops: QueryOps) -> None:
    index = index_of(*((HASH, n, 9_000) for n in range(3)))
    nothing = bytearray(len(all_of(index.data)))
    slot = 40 + HASH % SLOTS * 4
    assert look_up(query_ops, index, resident=nothing) == (MISSING, [], (slot, slot + 4))
    newest = len(index.image) + 3 * ENTRY_SIZE
    held = look_up(query_ops, index, resident=nothing, is_held=True)
    assert held == (MISSING, [], (newest, newest + ENTRY_SIZE))
    in_tail = look_up(query_ops, index, resident=nothing, is_held=True, written=1)
    assert in_tail.found == [2, 1, 0]


def test_a_long_chain_is_left_and_so_is_more_than_there_is_room_for(query_ops: QueryOps) -> None:
    other = HASH + SLOTS
    for hops, state in [(HOPS_MAX - 1, LOOKING), (HOPS_MAX, LEFT)]:
        index = index_of((HASH, 7, 9_000), *((other, n, 9_000) for n in range(hops - 1)))
        assert look_up(query_ops, index, {"maxNum": "5"}).state == state
    index = index_of((HASH, 7, 9_000))
    for most, state in [("0", LEFT), ("-1", LEFT), ("64", LOOKING), ("65", LEFT), ("1", FOUND)]:
        assert look_up(query_ops, index, {"maxNum": most}, max_count=1_000).state == state
    assert look_up(query_ops, index, {"maxNum": "65"}, max_count=32).state == LOOKING


@pytest.mark.parametrize("previous", [1, 2, 77, -1])
def test_a_chain_that_goes_forward_or_in_a_circle_ends(query_ops: QueryOps, previous: int) -> None:
    index = index_of((HASH, 100, 9_000), (HASH, 200, 9_000))
    for number in (1, 2):
        at = len(index.image) + number * ENTRY_SIZE
        entry = IndexEntry(HASH, 100 * number, 0, previous).pack()
        index.data[at : at + ENTRY_SIZE] = np.frombuffer(entry, np.uint8)
    assert look_up(query_ops, index).found == ([200, 100] if previous == 1 else [200])


class Answers:
    """Answers queries from one file of records.

    Attributes:
        states: of the queries, after that.
    """

    def __init__(
        self,
        ops: QueryOps,
        requests: bytes,
        found: Sequence[Sequence[int]],
        data: bytes,
        *,
        resident: bytearray | None = None,
        room: int = 1 << 16,
        confirm_offset: int = 1 << 40,
        first: int = 0,
    ) -> None:
        self.reader = Reader(plain)
        self.reader.read(requests)
        rows = self.reader.queries
        for row, offsets in enumerate(found):
            rows.offsets[row, : len(offsets)] = offsets
            rows.rows[row].count, rows.rows[row].state = len(offsets), FOUND
        answers = np.zeros(room, np.uint8)
        pages = np.frombuffer(resident or all_of(data), np.uint8)
        file = LogBytes(np.frombuffer(data, np.uint8), pages, BEGIN, BEGIN + len(data))
        self.next, self.end, self.why = ops.answer(rows, CONSTANTS, answers, file, confirm_offset, first, 0)
        self.frames: list[Command] = FrameReader().receive_data(answers[: self.end].tobytes())
        self.states = rows.states[: rows.count].tolist()


FIRST = record_of(0, 0)
DATA = FIRST + record_of(1, len(FIRST), host=20) + record_of(2, len(FIRST) + len(record_of(1, 0, host=20)))
PLACES = [0, len(FIRST), len(FIRST) + len(record_of(1, 0, host=20))]
OFFSETS = [BEGIN + place for place in PLACES]


@pytest.mark.parametrize("binary", [False, True])
def test_answers_are_the_templates_and_records_go_by_age(query_ops: QueryOps, binary: bool) -> None:
    requests = by_id(0, 3, binary=binary) + by_key(opaque=-4, binary=binary) + by_id(0, 2**31 - 1)
    made = Answers(query_ops, requests, [OFFSETS[1:2], OFFSETS[::-1], OFFSETS[:1]], DATA)
    assert (made.next, made.why, made.states) == (3, AnswerStop.DONE, 3 * [ANSWERED])
    one, two, three = made.frames
    assert (one.opaque, one.ext_fields, one.body) == (3, {}, DATA[PLACES[1] : PLACES[2]])
    assert (two.opaque, two.ext_fields, two.body) == (-4, {"a": "7", "b": "8"}, DATA)
    assert (three.opaque, three.body) == (2**31 - 1, FIRST)
    assert one.serialize_type == two.serialize_type == int(binary) and three.serialize_type == 0
    assert made.reader.queries.rows[2].answer_end == made.end
    expected = BY_KEY.encode(Command(12, -4, serialize_type=SerializeType(binary)), (7, 8), len(DATA)) + DATA
    assert encode_frame(two) == expected


def test_what_finds_nothing_or_may_not_be_given_is_so_marked(query_ops: QueryOps) -> None:
    found = [[], OFFSETS[:1], OFFSETS[:1], OFFSETS[1:2]]
    requests = by_key() + by_key() + by_id() + by_id()
    made = Answers(query_ops, requests, found, DATA, confirm_offset=OFFSETS[1])
    assert made.states == [NOTHING, ANSWERED, ANSWERED, NOTHING], "by key all may be given"
    assert (made.next, made.why, len(made.frames)) == (4, AnswerStop.DONE, 2)


@pytest.mark.parametrize(
    "offsets",
    [
        [BEGIN + 1],
        [BEGIN + len(DATA) - 1],
        [OFFSETS[0], BEGIN - 1],
        [OFFSETS[0], BEGIN + len(DATA)],
        [OFFSETS[0], OFFSETS[1]],
        [OFFSETS[1], OFFSETS[1]],
        [OFFSETS[2], 2**62],
    ],
)
def test_what_is_no_record_of_the_file_or_in_no_order_is_left(
    query_ops: QueryOps, offsets: list[int]
) -> None:
    made = Answers(query_ops, by_key() + by_id(), [offsets, OFFSETS[:1]], DATA)
    assert (made.states, len(made.frames)) == ([LEFT, ANSWERED], 1)


@pytest.mark.parametrize("offset", [BEGIN - 1, BEGIN + len(DATA), 0, -(2**63), 2**63 - 1])
def test_it_stops_at_a_record_that_lies_in_another_file(query_ops: QueryOps, offset: int) -> None:
    found = [OFFSETS[:1], [offset]]
    made = Answers(query_ops, by_id() + by_id(), found, DATA, confirm_offset=2**63 - 1)
    is_nowhere = offset == 2**63 - 1  # which is not before what is confirmed
    assert (made.next, made.why) == ((2, AnswerStop.DONE) if is_nowhere else (1, AnswerStop.ELSEWHERE))
    assert made.states == [ANSWERED, NOTHING if is_nowhere else FOUND]


def test_it_stops_where_there_is_no_room(query_ops: QueryOps) -> None:
    found, room = [OFFSETS[:1], OFFSETS[1:2]], len(FIRST) + len(CONSTANTS.data) + ANSWER_SIZE_MAX
    made = Answers(query_ops, by_id() + by_id(), found, DATA, room=room)
    assert (made.next, made.why, made.states) == (1, AnswerStop.FULL, [ANSWERED, FOUND])
    made = Answers(query_ops, by_id() + by_id(), found, DATA, first=1)
    assert (made.next, made.why) == (2, AnswerStop.DONE)
    assert [frame.body for frame in made.frames] == [DATA[PLACES[1] : PLACES[2]]]


def test_records_that_may_not_be_in_memory_are_asked_for_and_not_touched(query_ops: QueryOps) -> None:
    long = record_of(0, 0, body=bytes(3 * PAGE_SIZE))
    pages = all_of(long)
    for page, missing in [(0, (0, 91)), (1, (0, len(long))), (3, (0, len(long)))]:
        resident = pages[:]
        resident[page] = 0
        made = Answers(query_ops, by_id(), [[BEGIN]], long, resident=resident)
        assert (made.next, made.why, made.states) == (0, AnswerStop.MISSING, [MISSING])
        assert tuple(made.reader.row("place", "place_end")) == missing


@settings(deadline=None)
@given(at=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255), kind=st.sampled_from((8, 20)))
def test_whatever_is_in_a_record_no_other_byte_is_read(
    query_ops: QueryOps, at: float, value: int, kind: int
) -> None:
    data = bytearray(record_of(0, 0, host=kind))
    data[int(at * len(data))] = value
    assert Answers(query_ops, by_id(), [[BEGIN]], bytes(data)).states[0] in (ANSWERED, LEFT)


PIECES = [
    "KEYS\1k1\2",
    "KEYS\1k1",
    "KEYS\1k2 k1 k1\2",
    "KEYS\1k11 xk1\2",
    "KEYS\1\2",
    "UNIQ_KEY\1k1\2",
    "TAGS\1k1\2",
    "TAGS\1\2",
]


@settings(deadline=None)
@given(
    topic=st.sampled_from(["T", "TT", "t", "S"]),
    pieces=st.lists(st.sampled_from(PIECES), max_size=4),
    asked=st.sampled_from(["T", "TT", "S", ""]),
    key=st.sampled_from(["k1", "k11", "k", "k1 k1", "", "T#k1", "T#", "T#k", "S#k1"]),
    unique=st.booleans(),
    magic=st.sampled_from([MAGIC_V1, MAGIC_V2]),
    host=st.sampled_from([8, 20]),
)
def test_a_record_is_given_if_its_topic_and_a_key_of_it_are_those_asked_for(
    query_ops: QueryOps,
    topic: str,
    pieces: list[str],
    asked: str,
    key: str,
    unique: bool,
    magic: int,
    host: int,
) -> None:
    data = record_of(0, 0, topic=topic, properties="".join(pieces).encode(), magic=magic, host=host)
    query = by_key({"topic": asked, "key": key, "_UNIQUE_KEY_QUERY": str(unique).lower()})
    made = Answers(query_ops, query, [[BEGIN]], data)
    is_right = has_key(decode(data), asked, key, KeyKind.UNIQUE if unique else KeyKind.ANY)
    assert made.states == [ANSWERED if is_right else LEFT]
