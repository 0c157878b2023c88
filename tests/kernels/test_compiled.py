"""The compiled operations equal the plain ones, on logs that hypothesis makes and then damages.

``pytest tests/kernels/test_compiled.py --hypothesis-profile long`` does so on 10,000 logs.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from cometmq.format.checksum import Crc
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.host import pack_host
from cometmq.format.index import ENTRY_SIZE, HEADER_SIZE, SLOT_SIZE, IndexHeader
from cometmq.format.property_crc import reserve, seal
from cometmq.format.record import MAGIC_V2, Record, encode, encode_blank
from cometmq.kernels import plain
from cometmq.kernels.arrays import PAGE_SIZE, Bytes
from cometmq.kernels.arrow.plain import TYPES
from cometmq.kernels.ops import Dispatch, Ops, Scan
from cometmq.kernels.queries.rows import NO_LIMIT, IndexBytes, QueryRows, hash_query

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
TIME = st.integers(1_795_245_155_000, 1_795_245_160_000) | st.integers(0, 2**62)
V4, V4_OTHER = pack_host("127.0.0.1", 10911), pack_host("10.0.0.7", 50123)
V6 = pack_host("2001:db8::7", 10911)
DELAY_LEVELS = DelayLevels.parse("1s 5s 2h")
BASE_OFFSETS = [0, 1 << 30, (1 << 40) + 7]

TOPICS = [
    "TopicA",
    "TopicB",
    SCHEDULE_TOPIC,
    "%RETRY%group",
    "t" * 127,
    "t" * 128,
    "主题",
    "\udcffbad\udce4\udcb8",
    "",
]
NAMES = [
    b"TAGS",
    b"KEYS",
    b"UNIQ_KEY",
    b"DELAY",
    b"WAIT",
    b"",
    b"\0TAGS",
    b"XTAGS",
    b"UNIQ_KEY_",
    b"\xff",
    b"\xfe",
]
NAMES += ["имя".encode(), "\ufffd".encode(), b"LONGER_THAN_EIGHT", b"INNER_MULTI_QUEUE_OFFSET"]
NAMES += [b"INNER_MULTI_QUEUE_OFFSEU", b"INNER_MULTI_QUEUE_OFFSETS"]
VALUES = [
    b"",
    b"TagA",
    b"k1",
    b"k1 k2",
    b" ",
    b" a  b ",
    "标签 ключ 🙂".encode(),
    b"\xf0\x9f\x99",
    b"\xe4\xb8 \xc3",
]
VALUES += [b"1", b"+2", b"99", b"-1", b"0", b"1_0", "٣".encode(), b"9999999999", b"99999999999", b"a\x01b"]

pieces = st.builds(
    lambda name, value, mark, end: name + mark + value + end,
    st.sampled_from(NAMES) | st.binary(max_size=9),
    st.sampled_from(VALUES) | st.binary(max_size=9),
    st.sampled_from([b"\x01", b"\x01", b"\x01", b""]),
    st.sampled_from([b"\x02", b"\x02", b"\x02", b"\x02\x02", b""]),
)
properties = st.lists(pieces, max_size=8).map(b"".join)
records = st.builds(
    Record,
    topic=st.sampled_from(TOPICS),
    body=st.binary(max_size=60) | st.binary(min_size=1, max_size=9).map(lambda part: part * 33),
    properties=properties,
    queue_id=st.integers(0, 2) | INT,
    queue_offset=LONG,
    physical_offset=st.just(0),
    flag=INT,
    sys_flag=st.integers(0, 0xF) | INT,
    born_time=LONG,
    born_host=st.sampled_from([V4, V4, V4_OTHER, V6]),
    store_time=TIME | LONG,
    store_host=st.sampled_from([V4, V4, V6]),
    reconsume_times=INT,
    prepared_transaction_offset=LONG,
    body_crc=st.sampled_from([None] * 9 + [0xDEADBEEF]),
    magic=st.sampled_from([None, None, MAGIC_V2]),
)
tails = st.sampled_from([b"", bytes(3), bytes(200), encode_blank(300), encode_blank(8)[:6]]) | st.binary(
    max_size=200
)


class Log(NamedTuple):
    """A CommitLog's bytes, and how to scan them."""

    data: bytes
    base_offset: int
    start: int
    end: int | None
    crc: Crc
    max_records: int | None
    is_torn: bool
    flipped_bits: int

    def scan(self, ops: Ops) -> Scan:
        return ops.scan(
            self.data,
            base_offset=self.base_offset,
            start=self.start,
            end=self.end,
            crc=self.crc,
            max_records=self.max_records,
        )


def sealed(record: Record) -> bytes:
    """Encode a record with its property CRC."""
    return seal(encode(record._replace(properties=reserve(record.properties))))


@st.composite
def logs(draw: st.DrawFn) -> Log:
    """Build a log of some records, then tear, flip and cut it, or leave it whole."""
    base_offset = draw(st.sampled_from(BASE_OFFSETS))
    data, starts = b"", [0]
    for _ in range(draw(st.integers(1, 6))):
        record = draw(records)._replace(physical_offset=base_offset + len(data))
        data += sealed(record) if draw(st.booleans()) else encode(record)
        starts.append(len(data))
    data += draw(tails)
    torn = draw(st.sampled_from([0, 0, 0, 0, 1, 20, 100, 300]))
    damaged = bytearray(data[: len(data) - torn] if torn < len(data) else data)
    flipped_bits = draw(st.sampled_from([0, 0, 0, 1, 3]))
    for _ in range(flipped_bits):
        damaged[draw(st.integers(0, len(damaged) - 1))] ^= 1 << draw(st.integers(0, 7))
    return Log(
        bytes(damaged),
        base_offset,
        start=draw(st.sampled_from([0, 0, 0, 0, 0, *starts])),
        end=draw(st.sampled_from([None, None, None, None, len(data) + 9, len(data) - 50, len(data) // 2])),
        crc=draw(st.sampled_from(Crc)),
        max_records=draw(st.sampled_from([None, None, None, None, None, 0, 1, 3])),
        is_torn=len(damaged) < len(data),
        flipped_bits=flipped_bits,
    )


EXAMPLES: Final = max(300, settings().max_examples)


@pytest.mark.timeout(7200)  # for the long profile
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(log=logs(), slot_count=st.integers(1, 9), topics=st.none() | st.sets(st.sampled_from(TOPICS)))
def test_equal_the_plain_ones_on_any_log(
    compiled: Ops, log: Log, slot_count: int, topics: set[str] | None
) -> None:
    scan = log.scan(plain)
    event("torn", log.is_torn)
    event("flipped bits", log.flipped_bits)
    event(f"{scan.stop_reason.name} after {'some' if scan.count else 'no'} records")
    assert_same(log.scan(compiled), scan)
    dispatch = plain.dispatch(log.data, scan, DELAY_LEVELS)
    assert_same(compiled.dispatch(log.data, scan, DELAY_LEVELS), dispatch)
    unnamed = compiled.dispatch(log.data, scan, DELAY_LEVELS, named=False)
    assert_same(unnamed, plain.dispatch(log.data, scan, DELAY_LEVELS, named=False))
    assert compiled.crc32(log.data) == plain.crc32(log.data)
    check_arrow(compiled, log.data, scan, topics)
    check_index(compiled, scan, dispatch, slot_count)


def check_arrow(compiled: Ops, data: bytes, scan: Scan, topics: set[str] | None) -> None:
    """Compare the records chosen, and all columns of them."""
    begin_time = int(scan.store_time[0]) if scan.count else 0
    chosen, rows = (ops.select(data, scan, topics=topics, begin_time=begin_time) for ops in (compiled, plain))
    assert chosen.dtype == rows.dtype and chosen.tolist() == rows.tolist()
    gathered = compiled.arrow(data, scan, rows, TYPES)
    gathered.validate(full=True)
    assert gathered.equals(plain.arrow(data, scan, rows, TYPES))


def check_index(compiled: Ops, scan: Scan, dispatch: Dispatch, slot_count: int) -> None:
    """Insert all keys into two index files, some at a time; then look for some."""
    image_size = HEADER_SIZE + SLOT_SIZE * slot_count
    images = np.zeros((2, image_size), np.uint8)
    files = np.zeros((2, 2 * ENTRY_SIZE * 10), np.uint8)  # more than the file holds
    dirty = np.zeros((2, 1 + image_size // PAGE_SIZE), np.bool_)
    offsets, times = scan.physical_offset[dispatch.key_record], scan.store_time[dispatch.key_record]
    at = 0
    while at < len(dispatch.key_hash):
        taken = []
        for ops, image, file, pages in zip((compiled, plain), images, files, dirty, strict=True):
            next_entry = IndexHeader.unpack(image.tobytes()).next_entry
            room = file[ENTRY_SIZE * next_entry : ENTRY_SIZE * (next_entry + 4)]
            keys = dispatch.key_hash[at:], offsets[at:], times[at:]
            taken.append(ops.index_insert(image, pages, room, *keys, entry_count=12))
        assert taken[0] == taken[1]
        if not taken[0]:
            break
        at += taken[0]
    assert (images[0] == images[1]).all() and (files[0] == files[1]).all() and (dirty[0] == dirty[1]).all()
    if scan.count:
        middle = int(np.median(scan.store_time.astype(np.float64)).clip(0, 2**62))
        for key_hash in dispatch.key_hash[:3].tolist():
            for begin_time in (0, middle):
                found = [
                    found_in(ops, images[0], files[0], hash_query(key_hash, begin_time, 2**63 - 1, 3))
                    for ops in (compiled, plain)
                ]
                assert found[0] == found[1]


def found_in(ops: Ops, image: Bytes, entries: Bytes, query: QueryRows) -> list[int]:
    """Look a key up in an index file of which some entries are not written yet."""
    header, written, cut = IndexHeader.unpack(image.tobytes()), 5, len(image) + 5 * ENTRY_SIZE
    data = np.concatenate((image, entries))
    numbers = len(image), written, header.begin_time, header.end_time, header.next_entry
    pages = np.ones(1 + len(data) // PAGE_SIZE, np.uint8)
    file = IndexBytes(image, True, data[:cut], pages, data[cut:], numbers)
    ops.queries.find(file, 0, 3, NO_LIMIT, query)
    return query.found(0)


def assert_same(found: Sequence[Any], expected: Sequence[Any]) -> None:
    """Compare two structs of arrays."""
    for mine, right in zip(found, expected, strict=True):
        if isinstance(right, np.ndarray):
            assert_equal(mine, right)
        else:
            assert mine == right


def assert_equal(found: Any, expected: Any) -> None:
    assert found.dtype == expected.dtype and found.tolist() == expected.tolist()
