from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.format import record
from cometmq.format.checksum import Crc
from cometmq.format.host import pack_host
from cometmq.format.layout import commitlog_dir, parse_offset_name
from cometmq.format.property_crc import reserve, seal
from cometmq.format.record import (
    HEAD_MAX_SIZE,
    MAGIC_V2,
    Record,
    RecordHead,
    decode,
    encode,
    encode_blank,
)
from cometmq.format.scan import Stop, StopReason, check, find_next_record, is_message, scan, whole_record

BASE: Final = 1 << 30
V4 = pack_host("127.0.0.1", 10911)
V6 = pack_host("::1", 10911)
PLAIN = Record(
    topic="TopicA",
    body=b"a body",
    properties=b"TAGS\x01TagA\x02",
    queue_id=0,
    queue_offset=0,
    physical_offset=BASE,
    flag=0,
    sys_flag=0,
    born_time=1,
    born_host=V4,
    store_time=2,
    store_host=V4,
)
SIZE = len(encode(PLAIN))

contents = st.builds(
    PLAIN._replace,
    topic=st.sampled_from(["t", "TopicA", "t" * 128]),
    body=st.binary(max_size=200) | st.just(encode(PLAIN)),
    properties=st.binary(max_size=100),
    born_host=st.sampled_from([V4, V6]),
    store_host=st.sampled_from([V4, V6]),
)
logs = st.lists(contents, max_size=8).map(lambda records: log_of(*records))


def log_of(*records: Record) -> bytes:
    """Lay records back to back, each with its true physical offset."""
    data = b""
    for stored in records:
        data += encode(stored._replace(physical_offset=BASE + len(data)))
    return data


def positions(data: bytes) -> list[int]:
    return [head.position for head in scan(data, base_offset=BASE)]


def stop_of(data: bytes, *, end: int | None = None, crc: Crc = Crc.BODY) -> Stop:
    found = scan(data, base_offset=BASE, end=end, crc=crc)
    list(found)
    return found.stop


@pytest.mark.parametrize(
    ("store", "counts", "stops"),
    [
        ("store-clean", [2493, 192], [Stop(1022847, StopReason.BLANK), Stop(246258, StopReason.END)]),
        ("store-killed", [2604, 0], [Stop(1043418, StopReason.END), Stop(0, StopReason.END)]),
        ("store-killed-recovered", [2604], [Stop(1043418, StopReason.END)]),
    ],
)
def test_goes_through_the_logs_of_a_real_broker(
    golden: Mapping[str, Path], store: str, counts: list[int], stops: list[Stop]
) -> None:
    found = []
    for path in sorted(commitlog_dir(golden[store]).iterdir()):
        records = scan(memoryview(path.read_bytes()), base_offset=parse_offset_name(path.name))
        found.append((len(list(records)), records.stop))
    assert found == list(zip(counts, stops, strict=True))


@given(logs)
def test_finds_what_was_written_and_stops_behind_it(data: bytes) -> None:
    found = scan(data + bytes(100), base_offset=BASE)
    heads = list(found)
    assert b"".join(data[head.position : head.position + head.size] for head in heads) == data
    assert found.stop == Stop(len(data), StopReason.END)


def test_begins_and_ends_where_it_is_told() -> None:
    data = log_of(PLAIN, PLAIN, PLAIN)
    found = scan(data, base_offset=BASE, start=SIZE, end=2 * SIZE)
    assert [head.position for head in found] == [SIZE]
    assert found.stop == Stop(2 * SIZE, StopReason.END)


def test_an_end_behind_the_buffer_is_its_end() -> None:
    assert stop_of(log_of(PLAIN), end=10**9) == Stop(SIZE, StopReason.END)


def patched(offset: int, data: bytes, stored: Record = PLAIN) -> bytes:
    before = encode(stored)
    return before[:offset] + data + before[offset + len(data) :]


def size_field(size: int) -> bytes:
    return size.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("rule", "data", "reason"),
    [
        (1, b"", StopReason.END),
        (1, b"\0\0\0", StopReason.END),
        (1, encode(PLAIN)[:3], StopReason.END),
        (2, bytes(4), StopReason.END),
        (2, bytes(7), StopReason.END),
        (2, bytes(8), StopReason.END),
        (2, bytes(200), StopReason.END),
        (3, encode(PLAIN)[:4], StopReason.LIMIT),
        (3, encode(PLAIN)[:7], StopReason.LIMIT),
        (4, encode_blank(8), StopReason.BLANK),
        (4, encode_blank(1000) + b"stale bytes", StopReason.BLANK),
        (5, size_field(SIZE) + bytes(200), StopReason.DAMAGED),
        (5, size_field(0) + b"\0\0\0\x01" + bytes(200), StopReason.DAMAGED),
        (5, b"no record, but some text", StopReason.DAMAGED),
        (6, patched(record.SIZE_AT, size_field(0)), StopReason.DAMAGED),
        (6, patched(record.SIZE_AT, size_field(90))[:20], StopReason.DAMAGED),
        (6, patched(record.SIZE_AT, b"\xff\xff\xff\xff"), StopReason.DAMAGED),
        (7, encode(PLAIN)[:8], StopReason.LIMIT),
        (7, encode(PLAIN)[:-1], StopReason.LIMIT),
        (7, patched(record.SIZE_AT, b"\x7f\xff\xff\xff")[:111], StopReason.LIMIT),
        (8, patched(record.SIZE_AT, size_field(91), PLAIN._replace(magic=MAGIC_V2)), StopReason.DAMAGED),
        (8, patched(record.SIZE_AT, size_field(92), PLAIN._replace(store_host=V6)), StopReason.DAMAGED),
        (9, patched(record.BODY_LENGTH_AT, b"\xff\xff\xff\xff") + bytes(20), StopReason.DAMAGED),
        (9, patched(record.SIZE_AT, b"\x7f\xff\xff\xff") + bytes(20), StopReason.DAMAGED),
        (9, patched(record.SIZE_AT, size_field(94 + 32898)) + bytes(20), StopReason.DAMAGED),
        (10, encode(PLAIN._replace(physical_offset=BASE + 1)), StopReason.DAMAGED),
        (10, encode(PLAIN._replace(physical_offset=0, body=bytes(99)))[:-1], StopReason.DAMAGED),
        (11, encode(PLAIN._replace(body=bytes(99)))[:-1], StopReason.LIMIT),
        (11, patched(record.SIZE_AT, size_field(94 + 32897)) + bytes(20), StopReason.LIMIT),
        (12, patched(record.BODY_AT + 6, b"\xff"), StopReason.DAMAGED),
        (12, patched(record.BODY_AT + 6, b"\x05"), StopReason.DAMAGED),
        (12, patched(SIZE - 12, b"\xff\xff"), StopReason.DAMAGED),
        (12, patched(record.SIZE_AT, size_field(SIZE + 1)) + bytes(20), StopReason.DAMAGED),
        (13, patched(record.BODY_AT, b"A"), StopReason.DAMAGED),
    ],
)
def test_rule(rule: int, data: bytes, reason: StopReason) -> None:
    found = check(data, 0, len(data), base_offset=BASE)
    assert isinstance(found, Stop), f"rule {rule}"
    assert (found.position, found.reason) == (0, reason)
    assert found.detail or reason in (StopReason.END, StopReason.BLANK)
    assert check(b"***" + data, 3, len(data) + 3, base_offset=BASE - 3) == found._replace(position=3)


def test_a_record_with_a_wrong_body_is_good_to_who_does_not_ask() -> None:
    data = patched(record.BODY_AT, b"A")
    assert stop_of(data).reason is StopReason.DAMAGED
    assert stop_of(data, crc=Crc.NONE) == Stop(SIZE, StopReason.END)


@given(logs, st.integers(0, 2000))
def test_a_cut_is_no_damage(data: bytes, end: int) -> None:
    stop = stop_of(data[:end])
    assert stop.reason in (StopReason.END, StopReason.LIMIT)
    assert stop == stop_of(data, end=end)
    assert stop.reason is StopReason.LIMIT or min(end, len(data)) - stop.position < 4


@given(logs, st.integers(500, 900))
def test_reading_in_pieces_finds_the_same(data: bytes, piece: int) -> None:
    data += encode_blank(100)
    found, start, stop = [], 0, Stop(0, StopReason.LIMIT)
    while stop.reason is not StopReason.BLANK:
        records = scan(data[start : start + piece], base_offset=BASE + start)
        found += [start + head.position for head in records]
        stop = records.stop
        start += stop.position
    assert found == positions(data)
    assert start == len(data) - 8


@given(logs, st.lists(st.tuples(st.integers(0), st.integers(0, 7)), max_size=3), st.integers(0, 50))
def test_flipped_bits_and_torn_ends_stop_it_and_raise_nothing(
    data: bytes, flips: list[tuple[int, int]], torn: int
) -> None:
    damaged = bytearray(data)
    for at, bit in flips:
        if damaged:
            damaged[at % len(damaged)] ^= 1 << bit
    damaged = damaged[: len(damaged) - torn]
    found = scan(damaged, base_offset=BASE)
    end = 0
    for head in found:
        assert head.position == end
        assert decode(damaged, head.position).physical_offset == BASE + end
        end += head.size
    assert found.stop.position == end


@given(st.binary(max_size=300))
def test_any_bytes_stop_it_and_raise_nothing(data: bytes) -> None:
    assert stop_of(data).position == 0
    find_next_record(data, 0, base_offset=BASE)


@given(logs, st.integers(0, 2500))
def test_the_next_record_is_found_from_anywhere(data: bytes, start: int) -> None:
    starts = positions(data)
    expected = next(iter(starts[bisect_left(starts, start) :]), None)
    assert find_next_record(data + bytes(30), start, base_offset=BASE) == expected


def test_the_next_record_is_found_in_a_real_log(golden: Mapping[str, Path]) -> None:
    data = (commitlog_dir(golden["store-clean"]) / "00000000000000000000").read_bytes()
    starts = [head.position for head in scan(data, base_offset=0)]
    for start in range(0, len(data), 1009):
        expected = next(iter(starts[bisect_left(starts, start) :]), None)
        assert find_next_record(memoryview(data), start, base_offset=0) == expected


def test_takes_up_again_behind_damage() -> None:
    data = bytearray(log_of(PLAIN, PLAIN, PLAIN))
    data[SIZE + record.BODY_AT] ^= 1
    stop = stop_of(bytes(data))
    assert (stop.position, stop.reason) == (SIZE, StopReason.DAMAGED)
    assert find_next_record(data, stop.position, base_offset=BASE) == 2 * SIZE
    assert find_next_record(data, 2 * SIZE + 1, base_offset=BASE) is None


def test_a_copy_of_a_record_in_a_body_is_not_taken_for_one() -> None:
    data = log_of(PLAIN._replace(body=encode(PLAIN)), PLAIN)
    assert find_next_record(data, 1, base_offset=BASE) == positions(data)[1]


def test_a_record_that_the_end_cuts_behind_its_head_is_found() -> None:
    data = log_of(PLAIN, PLAIN._replace(body=bytes(500)))
    for end in (SIZE + HEAD_MAX_SIZE, SIZE + 300, len(data)):
        assert find_next_record(data, 1, base_offset=BASE, end=end) == SIZE
    assert find_next_record(data, 1, base_offset=BASE, end=SIZE + HEAD_MAX_SIZE - 1) is None


@given(logs, st.integers(1, 700))
def test_the_parts_of_a_split_log_have_every_record_once(data: bytes, part: int) -> None:
    found = []
    for begin in range(0, len(data), part):
        first = find_next_record(data, begin, base_offset=BASE)
        for head in scan(data, base_offset=BASE, start=len(data) if first is None else first):
            if head.position >= begin + part:
                break
            found.append(head.position)
    assert found == positions(data)


def test_a_good_record_is_given_with_its_fields() -> None:
    found = check(encode(PLAIN), 0, SIZE, base_offset=BASE)
    assert isinstance(found, RecordHead)
    assert (found.size, found.physical_offset, found.body_length) == (SIZE, BASE, 6)


MESSAGE = Record("Orders", b"body", b"", 0, 7, 1_000, 0, 0, 1, bytes(8), 2, bytes(8))


def is_ours(data: bytes, *, offset: int = 1_000, queue_offset: int = 7, crc: Crc = Crc.BODY) -> bool:
    """Check bytes that lie between others, as records of a file do."""
    return is_message(b"***" + data + b"***", 3, len(data), offset, queue_offset, crc)


def test_a_whole_record_in_its_place_is_the_message() -> None:
    assert is_ours(encode(MESSAGE))
    assert is_ours(encode(MESSAGE._replace(body=b"", born_host=bytes(20))))
    assert is_ours(encode(MESSAGE._replace(topic="t" * 300)))


def test_the_head_of_a_whole_record_is_given_and_of_nothing_else() -> None:
    whole = encode(MESSAGE)
    head = whole_record(b"***" + whole, 3, len(whole), 1_000, Crc.BODY)
    assert head is not None and (head.position, head.size, head.queue_offset) == (3, len(whole), 7)
    assert whole_record(whole, 0, len(whole) - 1, 1_000, Crc.BODY) is None
    assert whole_record(whole + bytes(1), 0, len(whole) + 1, 1_000, Crc.BODY) is None
    assert whole_record(whole, 0, len(whole), 1_001, Crc.BODY) is None


def test_another_place_queue_offset_or_size_is_not() -> None:
    whole = encode(MESSAGE)
    assert not is_ours(whole, offset=1_001)
    assert not is_ours(whole, queue_offset=8)
    assert not is_ours(whole[:50])
    assert not is_ours(whole + bytes(1))
    assert not is_message(whole, 0, len(whole) + 1, 1_000, 7, Crc.BODY)


@pytest.mark.parametrize("at", [0, 4, 8, 84, 87, 90, 92, 99, 100])
def test_no_damage_to_size_magic_crc_length_or_body_gets_by(at: int) -> None:
    data = bytearray(encode(MESSAGE))
    data[at] ^= 0x40
    assert not is_ours(bytes(data))


def test_with_the_property_crc_no_flipped_bit_gets_by() -> None:
    whole = seal(encode(MESSAGE._replace(properties=reserve(b"KEYS\x01k\x02"))))
    assert is_ours(whole, crc=Crc.RECORD)
    assert not is_ours(encode(MESSAGE), crc=Crc.RECORD)
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        assert not is_ours(bytes(data), crc=Crc.RECORD)


def test_a_v1_record_is_no_message_if_its_topic_is_longer_than_v1_allows() -> None:
    whole = encode(MESSAGE._replace(topic="t" * 200))  # V2: two bytes of length
    v1 = whole.replace(MAGIC_V2.to_bytes(4, "big"), record.MAGIC_V1.to_bytes(4, "big"))
    v1 = (len(whole) - 1).to_bytes(4, "big") + v1[4:].replace(b"\0\xc8tt", b"\xc8tt")
    assert len(v1) == len(whole) - 1
    assert not is_ours(v1)
