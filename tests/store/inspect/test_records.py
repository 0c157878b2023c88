"""CommitLog files, field by field."""

import struct
from collections.abc import Mapping
from pathlib import Path

from cometmq.format.host import host_text, pack_host
from cometmq.format.record import Record, decode, encode, encode_blank
from cometmq.format.sys_flag import COMPRESSED, TRANSACTION_COMMIT
from cometmq.store.inspect.records import record_position, record_rows
from cometmq.store.inspect.row import DAMAGED, UNUSED, InspectRow

RECORD = Record(
    topic="Orders",
    body=b"hello",
    properties=b"KEYS\x01k1\x02TAGS\x01paid\x02",
    queue_id=3,
    queue_offset=7,
    physical_offset=1_000_000,
    flag=5,
    sys_flag=0,
    born_time=1_700_000_000_000,
    born_host=pack_host("10.0.0.1", 5000),
    store_time=1_700_000_000_123,
    store_host=pack_host("10.0.0.2", 10911),
    reconsume_times=2,
    prepared_transaction_offset=42,
)
FILE_SIZE = 4_096
SIZE = len(encode(RECORD))


def rows_of(data: bytes, base_offset: int = 1_000_000, position: int = 0) -> list[InspectRow]:
    return list(record_rows(memoryview(data), base_offset, position, len(data.rstrip(b"\0"))))


def test_each_field_is_shown_where_its_bytes_are() -> None:
    for born_ip in ("10.0.0.1", "2001:db8::1"):
        data = encode(RECORD._replace(born_host=pack_host(born_ip, 5000)))
        row = rows_of(data)[0]
        shown = {field.name: field for field in row.fields}
        assert (row.what, row.position, row.size) == ("record", 0, len(data))
        for name, layout in (("size", ">i"), ("queue_id", ">i"), ("flag", ">i"), ("queue_offset", ">q")):
            assert struct.unpack_from(layout, data, shown[name].position) == (shown[name].value,)
        for name in ("physical_offset", "born_time", "store_time", "prepared_transaction_offset"):
            assert struct.unpack_from(">q", data, shown[name].position) == (shown[name].value,)
        for name in ("sys_flag", "reconsume_times", "body_length"):
            assert struct.unpack_from(">i", data, shown[name].position) == (shown[name].value,)
        assert struct.unpack_from(">b", data, shown["topic_length"].position) == (6,)
        assert struct.unpack_from(">h", data, shown["properties_length"].position) == (18,)
        store_host_at = shown["store_host"].position
        assert (
            host_text(data[store_host_at : store_host_at + 8])
            == shown["store_host"].value
            == "10.0.0.2:10911"
        )
        assert data[shown["body"].position :].startswith(b"hello")
        assert data[shown["topic"].position :].startswith(b"Orders")
        assert data[shown["properties"].position :] == RECORD.properties
        assert shown["properties"].value == {"KEYS": "k1", "TAGS": "paid"}
        assert "2023-11-14T22:13:20.123Z" in shown["store_time"].text
        assert [field.position for field in row.fields] == sorted(field.position for field in row.fields)


def test_flags_and_bodies_are_written_out() -> None:
    flags = COMPRESSED | 0x200 | TRANSACTION_COMMIT
    data = encode(RECORD._replace(sys_flag=flags, body=b"\0\1" * 500))
    shown = {field.name: field for field in rows_of(data)[0].fields}
    assert shown["sys_flag"].text == "0x209 (ZSTD, commit)"
    assert shown["body_hex"].value == "0001" * 128
    assert shown["body_hex"].text.endswith("… 744 bytes more")


def test_damage_is_shown_and_what_lies_behind_it() -> None:
    records = [encode(RECORD._replace(physical_offset=1_000_000 + at)) for at in (0, SIZE, 2 * SIZE)]
    data = bytearray(b"".join(records) + encode_blank(FILE_SIZE - 3 * SIZE)).ljust(FILE_SIZE, b"\0")
    data[SIZE + 90] ^= 1
    rows = rows_of(bytes(data))
    assert [(row.what, row.position, row.size) for row in rows] == [
        ("record", 0, SIZE),
        (DAMAGED, SIZE, SIZE),
        ("record", 2 * SIZE, SIZE),
        ("blank", 3 * SIZE, FILE_SIZE - 3 * SIZE),
    ]
    assert "BODYCRC" in rows[1].note
    assert rows[3].note == ""


def test_what_was_never_written_is_shown_as_one() -> None:
    data = encode(RECORD).ljust(FILE_SIZE, b"\0")
    assert [(row.what, row.size) for row in rows_of(data)][1:] == [(UNUSED, FILE_SIZE - SIZE)]
    assert [row.what for row in rows_of(bytes(FILE_SIZE))] == [UNUSED]
    torn = encode(RECORD)[:100].ljust(FILE_SIZE, b"\0")
    assert [row.what for row in rows_of(torn)] == [DAMAGED]


def test_a_blank_of_the_wrong_size_is_noted() -> None:
    data = encode_blank(77).ljust(FILE_SIZE, b"\0")
    assert rows_of(data)[0].note == "4096 bytes are left in the file"


def test_a_position_within_a_record_leads_to_the_next_one() -> None:
    data = memoryview(encode(RECORD) + encode(RECORD._replace(physical_offset=1_000_000 + SIZE)))
    for position, found in ((0, 0), (1, SIZE), (SIZE, SIZE), (SIZE + 1, 2 * SIZE)):
        assert record_position(data, 1_000_000, position, len(data)) == found


def test_every_record_of_a_real_broker_is_shown(golden: Mapping[str, Path]) -> None:
    data = (golden["store-clean"] / "commitlog" / "00000000000001048576").read_bytes()
    rows = [row for row in rows_of(data, 1_048_576) if row.what == "record"]
    assert rows and rows[0].position == 0
    for row in rows[::20]:
        record = decode(data, row.position)
        assert {field.name: field.value for field in row.fields}["topic"] == record.topic
