from collections.abc import Iterator, Mapping
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import DamagedRecord, MessageIllegal
from cometmq.format import properties, property_crc
from cometmq.format.checksum import Crc
from cometmq.format.host import pack_host
from cometmq.format.layout import commitlog_path
from cometmq.format.properties import MAX_LENGTH
from cometmq.format.property_crc import SIZE, is_complete_without_crc, is_sealed, reserve, seal
from cometmq.format.record import Record, decode, encode, record_at
from cometmq.format.scan import StopReason, scan

HOST = pack_host("127.0.0.1", 10911)
PLAIN = Record("TopicA", b"a body", b"TAGS\x01TagA\x02", 3, 4, 5, 6, 0, 7, HOST, 8, HOST)
NO_DIGITS = b"__CRC32#\x010000000000\x02"

Golden = Mapping[str, Path]


def sealed(record: Record) -> bytes:
    return seal(encode(record._replace(properties=reserve(record.properties))))


def real_records(golden: Golden) -> Iterator[tuple[bytes, Record]]:
    data = commitlog_path(golden["store-property-crc"], 0).read_bytes()
    found = scan(data, base_offset=0, crc=Crc.RECORD)
    for head in found:
        yield data[head.position : head.position + head.size], record_at(data, head)
    assert found.stop.reason is StopReason.END


def test_every_record_of_a_real_broker_is_sealed_as_here(golden: Golden) -> None:
    records = list(real_records(golden))
    assert len(records) == 12
    for data, record in records:
        assert is_sealed(data)
        assert not is_complete_without_crc(record.properties)
        assert seal(encode(record._replace(properties=record.properties[:-SIZE] + bytes(SIZE)))) == data


def test_a_real_broker_removes_what_was_sent_under_the_name_but_not_in_a_batch(golden: Golden) -> None:
    by_body = {record.body: record.properties for _, record in real_records(golden)}
    assert NO_DIGITS not in by_body[b"own"] and by_body[b"own"].count(property_crc.NAME) == 1
    assert by_body[b"own in batch"].startswith(
        b"UNIQ_KEY\x01B2\x02" + NO_DIGITS + b"KEYS\x01k\x02__CRC32#\x01"
    )
    assert by_body[b"unended in batch"].startswith(
        b"UNIQ_KEY\x01B3\x02KEYS\x01k__CRC32#\x01"
    )  # and has no key
    assert max(map(len, by_body.values())) == MAX_LENGTH


def test_the_last_digit_comes_first() -> None:
    data = sealed(PLAIN)
    crc = crc32(data[:-SIZE]) & 0x7FFFFFFF
    assert data.endswith(b"TAGS\x01TagA\x02__CRC32#\x01" + f"{crc:010}".encode()[::-1] + b"\x02")
    assert decode(data, crc=Crc.RECORD).properties == data[-SIZE - 10 :]


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b"", b""),
        (b"A\x01a\x02", b"A\x01a\x02"),
        (b"A\x01a", b"A\x01a\x02"),
        (b"__CRC32#\x01", b""),
        (b"__CRC32#\x011", b""),
        (b"__CRC32#\x01\x02A\x01a\x02", b"A\x01a\x02"),
        (b"A\x01a\x02__CRC32#\x01\n1\x02B\x01b\x02__CRC32#\x012\x02", b"A\x01a\x02B\x01b\x02"),
        (b"A\x01a\x02__CRC32#\x011", b"A\x01a\x02"),
        (b"__CRC32#\x011\x02__CRC32#\x012\x02", b""),
        # RocketMQ leaves these: the name is no property's.
        (b"__CRC32#", b"__CRC32#\x02"),
        (b"A\x01a__CRC32#\x011\x02", b"A\x01a__CRC32#\x011\x02"),
        (b"__CRC32#2\x011\x02", b"__CRC32#2\x011\x02"),
    ],
)
def test_room_is_made_for_one_property_of_the_name(sent: bytes, kept: bytes) -> None:
    assert reserve(sent) == kept + bytes(SIZE)


@given(st.dictionaries(st.sampled_from(["A", "KEYS", properties.CRC32]), st.text("ab\x01", min_size=1)))
def test_sealing_again_changes_nothing(by_name: dict[str, str]) -> None:
    data = sealed(PLAIN._replace(properties=properties.encode(by_name)))
    named = properties.decode(decode(data, crc=Crc.RECORD).properties)
    assert {name: value for name, value in named.items() if name != properties.CRC32} == {
        name: value for name, value in by_name.items() if name != properties.CRC32
    }
    assert sealed(decode(data)) == data


@pytest.mark.parametrize(
    "record",
    [
        PLAIN,
        PLAIN._replace(properties=b""),
        PLAIN._replace(topic="t" * 128, body=b""),
        PLAIN._replace(born_host=pack_host("::1", 1), store_host=pack_host("::1", 2)),
    ],
    ids=["plain", "no properties", "V2, no body", "IPv6"],
)
def test_every_flipped_bit_is_damage(record: Record) -> None:
    data = sealed(record)
    assert encode(decode(data, crc=Crc.RECORD)) == data
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedRecord):
            decode(damaged, crc=Crc.RECORD)


def test_a_record_without_it_is_damage_only_where_it_is_asked_for() -> None:
    for record in (PLAIN, PLAIN._replace(properties=b""), PLAIN._replace(body=sealed(PLAIN), properties=b"")):
        assert decode(encode(record), crc=Crc.BODY).topic == "TopicA"
        with pytest.raises(DamagedRecord, match="record at 0: the record does not end in the property CRC"):
            decode(encode(record), crc=Crc.RECORD)
        assert is_complete_without_crc(record.properties)


def test_it_counts_against_the_limit_of_properties() -> None:
    most = PLAIN._replace(properties=b"p\x01" + bytes(MAX_LENGTH - SIZE - 3).replace(b"\0", b"v") + b"\x02")
    assert decode(sealed(most), crc=Crc.RECORD).properties[:-SIZE] == most.properties
    with pytest.raises(MessageIllegal, match="properties of 32768 bytes"):
        sealed(most._replace(properties=most.properties.replace(b"pv", b"") + b"\x02"))


@pytest.mark.parametrize("flipped", range(SIZE))
def test_damage_to_it_does_not_look_like_a_record_that_never_had_it(flipped: int) -> None:
    data = bytearray(decode(sealed(PLAIN)).properties)
    data[-1 - flipped] ^= 0x40
    assert not is_complete_without_crc(bytes(data))
    assert not is_complete_without_crc(bytes(data[:-5] + bytes(5)))
