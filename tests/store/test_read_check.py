import pytest
from tests.store.conftest import ROOT, OpenStore, new_message

from cometmq.errors import DamagedRecord
from cometmq.format import layout
from cometmq.format.checksum import Crc
from cometmq.format.property_crc import reserve, seal
from cometmq.format.record import PHYSICAL_OFFSET_AT, QUEUE_OFFSET_AT, Record, encode
from cometmq.store import GetStatus
from cometmq.store.read_check import is_message
from cometmq.testing.memory_disk import MemoryDisk

RECORD = Record("Orders", b"body", b"", 0, 7, 1_000, 0, 0, 1, bytes(8), 2, bytes(8))


def test_a_whole_record_in_its_place_is_the_message() -> None:
    assert is_message(encode(RECORD), 1_000, 7, Crc.BODY)
    assert is_message(encode(RECORD._replace(body=b"", born_host=bytes(20))), 1_000, 7, Crc.BODY)


def test_another_place_or_queue_offset_is_not() -> None:
    assert not is_message(encode(RECORD), 1_001, 7, Crc.BODY)
    assert not is_message(encode(RECORD), 1_000, 8, Crc.BODY)
    assert not is_message(encode(RECORD)[:50], 1_000, 7, Crc.BODY)


@pytest.mark.parametrize("at", [0, 4, 8, 84, 87, 90, 92, 99, 100])
def test_no_damage_to_size_magic_crc_length_or_body_gets_by(at: int) -> None:
    data = bytearray(encode(RECORD))
    data[at] ^= 0x40
    assert not is_message(bytes(data), 1_000, 7, Crc.BODY)


def test_with_the_property_crc_no_flipped_bit_gets_by() -> None:
    whole = seal(encode(RECORD._replace(properties=reserve(b"KEYS\x01k\x02"))))
    assert is_message(whole, 1_000, 7, Crc.RECORD)
    assert not is_message(encode(RECORD), 1_000, 7, Crc.RECORD)
    for bit in range(8 * len(whole)):
        data = bytearray(whole)
        data[bit // 8] ^= 1 << bit % 8
        assert not is_message(bytes(data), 1_000, 7, Crc.RECORD)


@pytest.mark.parametrize("at", [90, QUEUE_OFFSET_AT, PHYSICAL_OFFSET_AT])
def test_a_record_that_is_damaged_while_the_store_is_open_is_passed_over_and_named(
    open_store: OpenStore, disk: MemoryDisk, at: int, caplog: pytest.LogCaptureFixture
) -> None:
    store = open_store()
    appended = store.append([new_message(body=b"%d" % n * 10) for n in range(4)])
    path = layout.commitlog_path(ROOT, 0)
    disk.open(path, writable=True).write(appended[2].physical_offset + at, b"\x55")
    first = store.get("Orders", 0, 0)
    assert (len(first.records), first.next_offset, first.damaged) == (2, 2, None)
    behind = store.get("Orders", 0, 2)
    assert (behind.status, len(behind.records), behind.next_offset) == (GetStatus.FOUND, 1, 4)
    assert isinstance(behind.damaged, DamagedRecord)
    assert f"{path}, byte {appended[2].physical_offset}" in caplog.text and "cometmq store" in caplog.text
