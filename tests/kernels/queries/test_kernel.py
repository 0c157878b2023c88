"""The kernels that look up and answer: chains of an index file against the plain kernel, what they touch."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kernels.pulls.test_plain_choice import BEGIN
from tests.kernels.querying import Reader, by_id, by_key, ops_of
from tests.kernels.records.test_index import File, keys_of

from cometmq import kernels
from cometmq.format.dispatch import KeyKind, has_key
from cometmq.format.index import ENTRY_SIZE, IndexEntry
from cometmq.format.java.java_hash import index_key_hash
from cometmq.format.record import MAGIC_V1, MAGIC_V2, Record, decode, encode
from cometmq.kernels.ops import PAGE_SIZE, Bytes
from cometmq.kernels.queries.rows import (
    ANSWER_END,
    ANSWER_SIZE_MAX,
    ANSWERED,
    COUNT,
    DONE,
    ELSEWHERE,
    FILES,
    FOUND,
    FOUND_MAX,
    FULL,
    HOPS_MAX,
    LOOKING,
    MISSING,
    PLACE,
    PLACE_END,
    STATE,
    STUCK,
    UNUSUAL,
    constants_of,
)
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command
from cometmq.wire.template import NumbersTemplate

SLOTS, ENTRIES = 5, 200
HASH = index_key_hash("T", "k1")
SECOND = 1_000
BY_ID, BY_KEY = NumbersTemplate(None, ()), NumbersTemplate(None, ("a", "b"))
CONSTANTS = constants_of(BY_ID.around(()), BY_KEY.around((7, 8)))


def index_of(*keys: tuple[int, int, int]) -> File:
    """Make an index file of keys' hashes, offsets and times."""
    file = File(SLOTS, ENTRIES)
    assert file.insert(kernels.load(), keys_of(*keys)) == len(keys)
    return file


def all_of(data: bytes | Bytes) -> bytearray:
    """Say of each page that it is in memory."""
    return bytearray(b"\1" * -(-len(data) // PAGE_SIZE))


class Asked(NamedTuple):
    """What became of a query."""

    state: int
    found: list[int]
    missing: tuple[int, int]


def look_up(
    index: File,
    changes: dict[str, str] | None = None,
    *,
    written: int = ENTRIES,
    resident: bytearray | None = None,
    is_held: bool = False,
    max_count: int = FOUND_MAX,
) -> Asked:
    """Look for a key in one file, of which the entries from ``written`` on are in the tail."""
    ops, header = ops_of(kernels.load()), index.header
    reader = Reader(ops)
    assert reader.reads(by_key(changes))
    cut = len(index.image) + written * ENTRY_SIZE
    file, tail = index.data[:cut], index.data[cut:]
    missing = ops.find(
        index.image,
        file,
        np.frombuffer(resident or all_of(index.data), np.uint8),
        is_held,
        tail,
        written,
        header.begin_time,
        header.end_time,
        header.next_entry,
        0,
        max_count,
        reader.rows,
        reader.offsets,
    )
    state, count, *place = reader.row(STATE, COUNT, PLACE, PLACE_END)
    assert missing == (state == MISSING)
    return Asked(state, reader.offsets[0, :count].tolist(), (place[0], place[1]))


@settings(deadline=None)
@given(
    keys=st.lists(
        st.tuples(st.sampled_from([HASH, HASH + SLOTS, 1, 2]), st.integers(1, 9)), min_size=1, max_size=60
    ),
    begin=st.integers(0, 300 * SECOND),
    length=st.integers(0, 300 * SECOND),
    count=st.integers(1, FOUND_MAX),
    written=st.integers(1, 61),
)
def test_it_finds_what_the_plain_kernel_finds(
    keys: list[tuple[int, int]], begin: int, length: int, count: int, written: int
) -> None:
    times = np.cumsum([seconds * SECOND for _, seconds in keys]).tolist()
    index = index_of(
        *((key, 100 * n, time) for n, ((key, _), time) in enumerate(zip(keys, times, strict=True)))
    )
    asked = {"beginTimestamp": str(begin), "endTimestamp": str(begin + length), "maxNum": str(count)}
    state, found, _ = look_up(index, asked, written=written)
    header = index.header
    is_over = header.begin_time < begin
    if header.begin_time <= begin + length and header.end_time >= begin:
        assert found == index.find(kernels.load(), HASH, begin, begin + length, count=count, written=written)
    else:
        assert found == []
    assert state == (FOUND if is_over or len(found) >= count else LOOKING)


def test_a_query_is_looked_up_in_a_file_once() -> None:
    index, ops = index_of((HASH, 100, 9_000)), ops_of(kernels.load())
    reader, header = Reader(ops), index.header
    assert reader.reads(by_key({"beginTimestamp": "9000"}))
    given = (
        *(
            index.image,
            index.data,
            np.frombuffer(all_of(index.data), np.uint8),
            False,
            index.data[:0],
            ENTRIES,
        ),
        *(header.begin_time, header.end_time, header.next_entry),
    )
    for number, files in [(0, 1), (0, 1), (2, 1), (1, 2)]:
        assert ops.find(*given, number, FOUND_MAX, reader.rows, reader.offsets) == 0
        assert reader.row(FILES, COUNT, STATE) == [files, files, LOOKING]


def test_it_asks_for_bytes_that_may_not_be_in_memory_and_touches_none() -> None:
    index = index_of(*((HASH, n, 9_000) for n in range(3)))
    nothing = bytearray(len(all_of(index.data)))
    slot = 40 + HASH % SLOTS * 4
    assert look_up(index, resident=nothing) == (MISSING, [], (slot, slot + 4))
    newest = len(index.image) + 3 * ENTRY_SIZE
    assert look_up(index, resident=nothing, is_held=True) == (MISSING, [], (newest, newest + ENTRY_SIZE))
    assert look_up(index, resident=nothing, is_held=True, written=1).found == [2, 1, 0], "it is in the tail"


def test_a_long_chain_is_unusual_and_so_is_more_than_there_is_room_for() -> None:
    other = HASH + SLOTS
    for hops, state in [(HOPS_MAX - 1, LOOKING), (HOPS_MAX, UNUSUAL)]:
        index = index_of((HASH, 7, 9_000), *((other, n, 9_000) for n in range(hops - 1)))
        assert look_up(index, {"maxNum": "5"}).state == state
    index = index_of((HASH, 7, 9_000))
    for most, state in [("0", UNUSUAL), ("-1", UNUSUAL), ("64", LOOKING), ("65", UNUSUAL), ("1", FOUND)]:
        assert look_up(index, {"maxNum": most}, max_count=1_000).state == state
    assert look_up(index, {"maxNum": "65"}, max_count=32).state == LOOKING


@pytest.mark.parametrize("previous", [1, 2, 77, -1])
def test_a_chain_that_goes_forward_or_in_a_circle_ends(previous: int) -> None:
    index = index_of((HASH, 100, 9_000), (HASH, 200, 9_000))
    for number in (1, 2):
        at = len(index.image) + number * ENTRY_SIZE
        entry = IndexEntry(HASH, 100 * number, 0, previous).pack()
        index.data[at : at + ENTRY_SIZE] = np.frombuffer(entry, np.uint8)
    assert look_up(index).found == ([200, 100] if previous == 1 else [200])


class Answers:
    """Answers queries from one file of records.

    Attributes:
        states: of the queries, after that.
    """

    def __init__(
        self,
        queries: bytes,
        found: Sequence[Sequence[int]],
        data: bytes,
        *,
        resident: bytearray | None = None,
        room: int = 1 << 16,
        confirm_offset: int = 1 << 40,
        first: int = 0,
    ) -> None:
        ops = ops_of(kernels.load())
        self.reader = Reader(ops)
        self.reader.read(queries)
        for row, offsets in enumerate(found):
            self.reader.offsets[row, : len(offsets)] = offsets
            self.reader.rows[row, COUNT], self.reader.rows[row, STATE] = len(offsets), FOUND
        answers = np.zeros(room, np.uint8)
        self.next, self.end, self.why = ops.answer(
            *CONSTANTS,
            answers,
            self.reader.rows,
            self.reader.offsets,
            self.reader.texts,
            confirm_offset,
            np.frombuffer(data, np.uint8),
            np.frombuffer(resident or all_of(data), np.uint8),
            BEGIN,
            BEGIN + len(data),
            first,
            0,
        )
        self.frames: list[Command] = FrameReader().receive_data(answers[: self.end].tobytes())
        self.states = self.reader.rows[:, STATE].tolist()


def record_of(
    number: int,
    position: int,
    *,
    host: int = 8,
    body: bytes = b"body",
    topic: str = "T",
    properties: bytes = b"KEYS\1k1\2",
    magic: int = MAGIC_V1,
) -> bytes:
    """Encode a record that has the topic and the key of ``by_key``."""
    record = Record(
        topic, body, properties, 0, number, BEGIN + position, 0, 0, 1, bytes(host), 2, bytes(host)
    )
    return encode(record._replace(magic=magic))


FIRST = record_of(0, 0)
DATA = FIRST + record_of(1, len(FIRST), host=20) + record_of(2, len(FIRST) + len(record_of(1, 0, host=20)))
PLACES = [0, len(FIRST), len(FIRST) + len(record_of(1, 0, host=20))]
OFFSETS = [BEGIN + place for place in PLACES]


@pytest.mark.parametrize("binary", [False, True])
def test_answers_are_the_templates_and_records_go_by_age(binary: bool) -> None:
    queries = by_id(0, 3, binary=binary) + by_key(opaque=-4, binary=binary) + by_id(0, 2**31 - 1)
    made = Answers(queries, [OFFSETS[1:2], OFFSETS[::-1], OFFSETS[:1]], DATA)
    assert (made.next, made.why, made.states) == (3, DONE, 3 * [ANSWERED])
    one, two, three = made.frames
    assert (one.opaque, one.ext_fields, one.body) == (3, {}, DATA[PLACES[1] : PLACES[2]])
    assert (two.opaque, two.ext_fields, two.body) == (-4, {"a": "7", "b": "8"}, DATA)
    assert (three.opaque, three.body) == (2**31 - 1, FIRST)
    assert one.serialize_type == two.serialize_type == int(binary) and three.serialize_type == 0
    assert made.reader.rows[:, ANSWER_END].tolist()[-1] == made.end


def test_what_finds_nothing_or_may_not_be_given_is_left() -> None:
    found = [[], OFFSETS[:1], OFFSETS[:1], OFFSETS[1:2]]
    made = Answers(by_key() + by_key() + by_id() + by_id(), found, DATA, confirm_offset=OFFSETS[1])
    assert made.states == [UNUSUAL, ANSWERED, ANSWERED, UNUSUAL], "by key all may be given"
    assert (made.next, made.why, len(made.frames)) == (4, DONE, 2)


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
def test_what_is_no_record_of_the_file_or_in_no_order_is_left(offsets: list[int]) -> None:
    made = Answers(by_key() + by_id(), [offsets, OFFSETS[:1]], DATA)
    assert (made.states, len(made.frames)) == ([UNUSUAL, ANSWERED], 1)


@pytest.mark.parametrize("offset", [BEGIN - 1, BEGIN + len(DATA), 0, -(2**63), 2**63 - 1])
def test_it_stops_at_a_record_that_lies_in_another_file(offset: int) -> None:
    made = Answers(by_id() + by_id(), [OFFSETS[:1], [offset]], DATA, confirm_offset=2**63 - 1)
    left = offset == 2**63 - 1  # which is not before what is confirmed
    assert (made.next, made.why) == ((2, DONE) if left else (1, ELSEWHERE))
    assert made.states == [ANSWERED, UNUSUAL if left else FOUND]


def test_it_stops_where_there_is_no_room() -> None:
    made = Answers(
        by_id() + by_id(),
        [OFFSETS[:1], OFFSETS[1:2]],
        DATA,
        room=len(FIRST) + len(CONSTANTS.data) + ANSWER_SIZE_MAX,
    )
    assert (made.next, made.why, made.states) == (1, FULL, [ANSWERED, FOUND])
    made = Answers(by_id() + by_id(), [OFFSETS[:1], OFFSETS[1:2]], DATA, first=1)
    assert (made.next, made.why, [frame.body for frame in made.frames]) == (
        2,
        DONE,
        [DATA[PLACES[1] : PLACES[2]]],
    )


def test_it_asks_for_records_that_may_not_be_in_memory_and_touches_none() -> None:
    long = record_of(0, 0, body=bytes(3 * PAGE_SIZE))
    pages = all_of(long)
    for page, missing in [(0, (0, 91)), (1, (0, len(long))), (3, (0, len(long)))]:
        resident = pages[:]
        resident[page] = 0
        made = Answers(by_id(), [[BEGIN]], long, resident=resident)
        assert (made.next, made.why, made.states) == (0, STUCK, [MISSING])
        assert tuple(made.reader.row(PLACE, PLACE_END)) == missing


@settings(deadline=None)
@given(at=st.floats(0, 1, exclude_max=True), value=st.integers(0, 255), kind=st.sampled_from((8, 20)))
def test_whatever_is_in_a_record_no_other_byte_is_read(at: float, value: int, kind: int) -> None:
    data = bytearray(record_of(0, 0, host=kind))
    data[int(at * len(data))] = value
    assert Answers(by_id(), [[BEGIN]], bytes(data)).states[0] in (ANSWERED, UNUSUAL)


PIECES = [
    "KEYS\1k1\2",
    "KEYS\1k1",
    "KEYS\1k2 k1 k1\2",
    "KEYS\1k11 xk1\2",
    "KEYS\1\2",
    "UNIQ_KEY\1k1\2",
    "TAGS\1k1\2",
]


@settings(deadline=None)
@given(
    topic=st.sampled_from(["T", "TT", "t", "S"]),
    pieces=st.lists(st.sampled_from(PIECES), max_size=4),
    asked=st.sampled_from(["T", "TT", "S", ""]),
    key=st.sampled_from(["k1", "k11", "k", "k1 k1", ""]),
    unique=st.booleans(),
    magic=st.sampled_from([MAGIC_V1, MAGIC_V2]),
    host=st.sampled_from([8, 20]),
)
def test_a_record_is_given_if_its_topic_and_a_key_of_it_are_those_asked_for(
    topic: str, pieces: list[str], asked: str, key: str, unique: bool, magic: int, host: int
) -> None:
    data = record_of(0, 0, topic=topic, properties="".join(pieces).encode(), magic=magic, host=host)
    query = by_key({"topic": asked, "key": key, "_UNIQUE_KEY_QUERY": str(unique).lower()})
    made = Answers(query, [[BEGIN]], data)
    is_right = has_key(decode(data), asked, key, KeyKind.UNIQUE if unique else KeyKind.ANY)
    assert made.states == [ANSWERED if is_right else UNUSUAL]
