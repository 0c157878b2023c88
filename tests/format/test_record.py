import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from struct import calcsize
from typing import Final

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cometmq.errors import CutRecord, DamagedRecord, MessageIllegal
from cometmq.format import properties, record
from cometmq.format.checksum import Crc, body_crc
from cometmq.format.host import pack_host
from cometmq.format.layout import commitlog_dir, parse_offset_name
from cometmq.format.record import (
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    Record,
    decode,
    decode_many,
    encode,
    encode_blank,
    field_at,
    read_head,
    size_of,
)
from cometmq.format.scan import scan

SEEN: Final = bytes.fromhex(
    "00000105daa320a73610a68600000002000000000000000000000000000000000000000000000000000001a1fcca72f6"
    "7f0000010000ce76000001a1fcca73457f000002000078bf0000000000000000000000000000000568656c6c6f06546f"
    "70696341009f4d53475f524547494f4e0144656661756c74526567696f6e02554e49515f4b4559014644303030303030"
    "303030303030303030303030303030303030303030303032334436413144424431364136363836323841463530303030"
    "02434c55535445520144656661756c74436c757374657202544147530154616741024b455953016b31206b3202574149"
    "5401747275650254524143455f4f4e017472756502"
)
"""The first record of a CommitLog that a real broker wrote."""

V4 = pack_host("127.0.0.1", 40000)
V6 = pack_host("2001:db8::1", 40000)
PLAIN = Record(
    topic="TopicA",
    body=b"a body",
    properties=b"TAGS\x01TagA\x02",
    queue_id=3,
    queue_offset=4,
    physical_offset=5,
    flag=6,
    sys_flag=0x301,
    born_time=7,
    born_host=V4,
    store_time=8,
    store_host=V4,
    reconsume_times=9,
    prepared_transaction_offset=10,
)

ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1)
hosts = st.binary(min_size=8, max_size=8) | st.binary(min_size=20, max_size=20)
short_topics = st.binary(max_size=127).map(lambda data: data.decode("utf-8", "surrogateescape"))
long_topics = st.text(min_size=128, max_size=200)
records = st.builds(
    Record,
    topic=short_topics | long_topics,
    body=st.binary(max_size=300),
    properties=st.binary(max_size=300),
    queue_id=ints,
    queue_offset=longs,
    physical_offset=longs,
    flag=ints,
    sys_flag=ints,
    born_time=longs,
    born_host=hosts,
    store_time=longs,
    store_host=hosts,
    reconsume_times=ints,
    prepared_transaction_offset=longs,
    body_crc=st.none(),
    magic=st.none(),
)


@given(records, st.binary(max_size=20), st.binary(max_size=20))
def test_what_is_encoded_is_decoded(stored: Record, before: bytes, after: bytes) -> None:
    data = encode(stored)
    assert len(data) == size_of(stored)
    for buffer in (before + data + after, memoryview(before + data + after)):
        found = decode(buffer, len(before))
        assert encode(found) == data
        assert found[:7] == stored[:7]
        assert found[8:14] == stored[8:14]
        assert found.sys_flag | 0x30 == stored.sys_flag | 0x30
        assert found.sys_flag & 0x10 == 0x10 * (len(stored.born_host) == 20)
        assert found.sys_flag & 0x20 == 0x20 * (len(stored.store_host) == 20)
        assert found.body_crc == body_crc(stored.body)


def test_reads_the_record_that_a_broker_wrote() -> None:
    found = decode(SEEN)
    assert found[:2] == ("TopicA", b"hello")
    assert found[3:] == (
        *(2, 0, 0, 0, 0),
        *(0x1A1FCCA72F6, pack_host("127.0.0.1", 52854), 0x1A1FCCA7345, pack_host("127.0.0.2", 30911)),
        *(0, 0, 0x3610A686, MAGIC_V1),
    )
    assert list(properties.decode(found.properties)) == [
        *("MSG_REGION", "UNIQ_KEY", "CLUSTER", "TAGS", "KEYS", "WAIT", "TRACE_ON")
    ]
    assert encode(found._replace(body_crc=None, magic=None)) == SEEN


@pytest.mark.parametrize(
    ("store", "count"), [("store-clean", 2685), ("store-killed", 2604), ("store-killed-recovered", 2604)]
)
def test_writes_every_golden_record_as_the_broker_did(
    golden: Mapping[str, Path], store: str, count: int
) -> None:
    found = 0
    for path in sorted(commitlog_dir(golden[store]).iterdir()):
        data = path.read_bytes()
        for head in scan(data, base_offset=parse_offset_name(path.name)):
            stored = decode(data, head.position)
            written = data[head.position : head.position + head.size]
            assert encode(stored) == written
            assert encode(stored._replace(body_crc=None, magic=None)) == written
            found += 1
    assert found == count


def test_docstring_table_and_constants_agree() -> None:
    rows = re.findall(r"^(\d+) +\d[\d, ]*? +([A-Z ]+?|body)(?:  .*)?$", record.__doc__ or "", re.MULTILINE)
    assert {name: int(offset) for offset, name in rows} == {
        "TOTALSIZE": record.SIZE_AT,
        "MAGIC": record.MAGIC_AT,
        "BODYCRC": record.BODY_CRC_AT,
        "QUEUEID": record.QUEUE_ID_AT,
        "FLAG": record.FLAG_AT,
        "QUEUEOFFSET": record.QUEUE_OFFSET_AT,
        "PHYSICALOFFSET": record.PHYSICAL_OFFSET_AT,
        "SYSFLAG": record.SYS_FLAG_AT,
        "BORNTIMESTAMP": record.BORN_TIME_AT,
        "BORNHOST": record.BORN_HOST_AT,
        "STORETIMESTAMP": record.STORE_TIME_AT,
        "STOREHOST": record.STORE_HOST_AT,
        "RECONSUMETIMES": record.RECONSUME_TIMES_AT,
        "PREPARED TRANSACTION OFFSET": record.PREPARED_TRANSACTION_OFFSET_AT,
        "BODYLEN": record.BODY_LENGTH_AT,
    }


@pytest.mark.parametrize(
    ("offset", "size", "value"),
    [
        (record.BODY_CRC_AT, 4, body_crc(PLAIN.body)),
        (record.QUEUE_ID_AT, 4, 3),
        (record.FLAG_AT, 4, 6),
        (record.QUEUE_OFFSET_AT, 8, 4),
        (record.PHYSICAL_OFFSET_AT, 8, 5),
        (record.SYS_FLAG_AT, 4, 0x301),
        (record.BORN_TIME_AT, 8, 7),
        (record.BORN_HOST_AT, 8, int.from_bytes(V4, "big")),
        (record.STORE_TIME_AT, 8, 8),
        (record.STORE_HOST_AT, 8, int.from_bytes(V4, "big")),
        (record.RECONSUME_TIMES_AT, 4, 9),
        (record.PREPARED_TRANSACTION_OFFSET_AT, 8, 10),
        (record.BODY_LENGTH_AT, 4, 6),
        (record.BODY_AT, 6, int.from_bytes(b"a body", "big")),
    ],
)
def test_each_field_lies_where_its_constant_says(offset: int, size: int, value: int) -> None:
    assert int.from_bytes(encode(PLAIN)[offset : offset + size], "big") == value


def test_fixed_part_takes_91_bytes() -> None:
    assert size_of(PLAIN._replace(topic="", body=b"", properties=b"")) == record.MIN_SIZE == 91


def test_the_table_has_the_fields_of_a_head_in_their_order() -> None:
    sizes = {record.INT: 4, record.UNSIGNED: 4, record.LONG: 8, record.HOST: 8}
    at = 0
    for name, kind in record.FIELDS.items():
        assert field_at(name) == at == getattr(record, f"{name.upper()}_AT")
        at += sizes[kind]
    assert at == record.BODY_AT


@pytest.mark.parametrize("hosts_v6", [(V4, V4), (V6, V4), (V4, V6), (V6, V6)])
def test_ipv6_hosts_move_the_fields_after_them(hosts_v6: tuple[bytes, bytes]) -> None:
    data = b"***" + encode(PLAIN._replace(born_host=hosts_v6[0], store_host=hosts_v6[1]))
    head = read_head(data, 3)
    for name, kind in record.FIELDS.items():
        value, at = getattr(head, name), 3 + field_at(name, head.sys_flag)
        if kind != record.HOST:
            size = calcsize(f">{kind}")
            value = value.to_bytes(size, "big")
        assert data[at:].startswith(value)


@pytest.mark.parametrize(("length", "magic"), [(127, MAGIC_V1), (128, MAGIC_V2)])
def test_long_topics_make_v2(length: int, magic: int) -> None:
    data = encode(PLAIN._replace(topic="t" * length))
    assert decode(data).magic == magic == int.from_bytes(data[4:8], "big")


def test_v2_of_a_short_topic_is_read_and_kept() -> None:
    data = encode(PLAIN._replace(magic=MAGIC_V2))
    assert decode(data).topic == "TopicA"
    assert encode(decode(data)) == data
    assert size_of(decode(data)) == len(data) == size_of(PLAIN) + 1


def test_a_topic_that_is_not_utf8_is_read_and_kept() -> None:
    data = encode(PLAIN).replace(b"TopicA", b"T\xffp\xe6\xa0A")
    assert decode(data).topic == "T\udcffp\udce6\udca0A"
    assert encode(decode(data)) == data


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (PLAIN._replace(properties=bytes(32768)), "properties of 32768 bytes, the limit is 32767"),
        (PLAIN._replace(topic="t" * 32768), "cannot hold its value"),
        (PLAIN._replace(topic="я" * 64), "cannot hold its value"),
        (PLAIN._replace(topic="\ud800"), "cannot hold its value"),
        (PLAIN._replace(born_host=b"1234"), "hosts of 4 and 8 bytes, must be 8 or 20"),
        (PLAIN._replace(store_host=bytes(16)), "hosts of 8 and 16 bytes, must be 8 or 20"),
        (PLAIN._replace(queue_id=2**31), "cannot hold its value"),
        (PLAIN._replace(physical_offset=2**63), "cannot hold its value"),
        (PLAIN._replace(sys_flag=2**32), "cannot hold its value"),
        (PLAIN._replace(body_crc=-1), "cannot hold its value"),
        (PLAIN._replace(magic=MAGIC_BLANK), "cannot hold its value"),
    ],
)
def test_refuses_what_the_format_cannot_hold(stored: Record, reason: str) -> None:
    with pytest.raises(MessageIllegal, match=reason):
        encode(stored)


def patched(offset: int, data: bytes, stored: Record = PLAIN) -> bytes:
    before = encode(stored)
    return before[:offset] + data + before[offset + len(data) :]


SIZE = size_of(PLAIN)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (patched(record.MAGIC_AT, encode_blank(0)[4:]), "magic 0xcbd43194 is not that of a record"),
        (patched(record.MAGIC_AT, bytes(4)), "magic 0x00000000 is not"),
        (patched(record.SIZE_AT, bytes(4)), "TOTALSIZE 0 is below the minimum of 91"),
        (patched(record.SIZE_AT, b"\xff\xff\xff\xff"), "TOTALSIZE -1 is below"),
        (patched(record.SIZE_AT, b"\0\0\0\x5a"), "TOTALSIZE 90 is below"),
        (
            patched(record.SIZE_AT, b"\0\0\0\x5b", PLAIN._replace(born_host=V6, store_host=V6)),
            "TOTALSIZE 91 is below the minimum of 115",
        ),
        (
            patched(record.SIZE_AT, (SIZE - 1).to_bytes(4, "big")),
            f"PROPLEN 10 does not end a record of {SIZE - 1}",
        ),
        (patched(record.SIZE_AT, b"\x7f\xff\xff\xff"), "BODYLEN 6 cannot be in a record of 2147483647"),
        (patched(record.BODY_LENGTH_AT, b"\xff\xff\xff\xff"), "BODYLEN -1 cannot be"),
        (patched(record.BODY_LENGTH_AT, b"\x7f\xff\xff\xff"), "BODYLEN 2147483647 cannot be"),
        (patched(record.BODY_LENGTH_AT, (SIZE - 90).to_bytes(4, "big")), f"BODYLEN {SIZE - 90} cannot be"),
        (patched(record.BODY_AT + 6, b"\xff"), "TOPICLEN -1 cannot be"),
        (patched(record.BODY_AT + 6, b"\x11"), "TOPICLEN 17 cannot be"),
        (patched(record.BODY_AT + 6, b"\xff\xff", PLAIN._replace(magic=MAGIC_V2)), "TOPICLEN -1 cannot be"),
        (patched(SIZE - 12, b"\xff\xff"), "PROPLEN -1 does not end a record of"),
        (patched(SIZE - 12, b"\x00\x09"), "PROPLEN 9 does not end a record of"),
        (patched(SIZE - 12, b"\x7f\xff"), "PROPLEN 32767 does not end a record of"),
    ],
)
def test_damage_says_which_check_failed(data: bytes, reason: str) -> None:
    with pytest.raises(DamagedRecord, match=re.escape(reason)) as raised:
        decode(b"***" + data, 3)
    assert raised.value.position == 3
    assert type(raised.value) is DamagedRecord


def test_no_record_begins_before_the_buffer() -> None:
    with pytest.raises(DamagedRecord, match="position is negative"):
        decode(encode(PLAIN), -1)


@pytest.mark.parametrize("stored", [PLAIN, PLAIN._replace(topic="t" * 128, born_host=V6, store_host=V6)])
def test_a_record_cut_anywhere_is_a_cut_record(stored: Record) -> None:
    data = encode(stored)
    for end in range(len(data)):
        with pytest.raises(CutRecord, match=f"{end} bytes are left"):
            decode(data[:end])
        with pytest.raises(CutRecord):
            read_head(data, 0, end)


def test_a_record_elsewhere_than_it_says_is_damage_to_who_knows() -> None:
    data = encode(PLAIN)
    assert read_head(data, 0, physical_offset=5).physical_offset == 5
    with pytest.raises(DamagedRecord, match="PHYSICALOFFSET 5, but it lies at 6"):
        read_head(data, 0, physical_offset=6)


@given(
    st.binary(max_size=200), st.sampled_from([b"", MAGIC_V1.to_bytes(4, "big"), MAGIC_V2.to_bytes(4, "big")])
)
def test_any_bytes_are_a_record_or_damaged(data: bytes, magic: bytes) -> None:
    try_to_decode(b"\0\0\0\x70" + magic + data)


@given(
    records,
    st.lists(st.tuples(st.integers(0), st.integers(0, 7)), min_size=1, max_size=3),
    st.integers(0, 40),
)
@example(stored=PLAIN, flips=[(record.SYS_FLAG_AT + 3, 4)], torn=0)
def test_flipped_bits_and_torn_ends_raise_nothing_else(
    stored: Record, flips: list[tuple[int, int]], torn: int
) -> None:
    data = bytearray(encode(stored))
    for at, bit in flips:
        data[at % len(data)] ^= 1 << bit
    try_to_decode(bytes(data[: len(data) - torn]))


def try_to_decode(data: bytes) -> None:
    """Decode, and accept only the documented error; what decodes all the same must be what the bytes say."""
    for crc in Crc:
        with suppress(DamagedRecord):
            found = decode(data, crc=crc)
            assert encode(found) == data[: size_of(found)]


@given(st.lists(records, max_size=5))
def test_a_pull_answer_is_read_record_by_record(stored: list[Record]) -> None:
    body = b"".join(map(encode, stored))
    assert list(map(encode, decode_many(memoryview(body)))) == list(map(encode, stored))


@pytest.mark.parametrize("tail", [b"\0", b"\0\0\0\x70\xda\xa3\x20\xa7", encode(PLAIN)[:-1]])
def test_a_pull_answer_that_breaks_off_is_told_after_its_good_records(tail: bytes) -> None:
    found = decode_many(encode(PLAIN) + tail)
    assert encode(next(found)) == encode(PLAIN)
    with pytest.raises(CutRecord, match=f"record at {SIZE}:"):
        next(found)


def test_a_blank_is_8_bytes() -> None:
    blank = encode_blank(25729)
    assert blank == (25729).to_bytes(4, "big") + MAGIC_BLANK.to_bytes(4, "big")
    assert len(blank) == record.END_FILE_MIN_BLANK
