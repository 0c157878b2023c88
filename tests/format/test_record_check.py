import pytest

from cometmq.format.checksum import Crc
from cometmq.format.property_crc import reserve, seal
from cometmq.format.record import Record, encode
from cometmq.format.record_check import is_message

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
