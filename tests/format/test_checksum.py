import pytest

from cometmq.errors import DamagedRecord
from cometmq.format.checksum import Crc, body_crc
from cometmq.format.host import pack_host
from cometmq.format.property_crc import reserve, seal
from cometmq.format.record import Record, decode, encode

HOST = pack_host("127.0.0.1", 10911)
PLAIN = Record("TopicA", b"a body", b"TAGS\x01TagA\x02", 3, 4, 5, 6, 0, 7, HOST, 8, HOST)


def test_crc_has_31_bits_and_is_zero_of_nothing() -> None:
    assert body_crc(b"") == 0
    assert body_crc(b"hello") == 0x3610A686
    assert body_crc(b"a") == 0x68B7BE43  # 0xE8B7BE43 without its highest bit
    assert body_crc(b"123456789") == 0x4BF43926  # CRC-32's check value is 0xCBF43926


def test_crc_of_an_empty_body_is_not_looked_at() -> None:
    data = encode(PLAIN._replace(body=b"", body_crc=77))
    assert decode(data).body_crc == 77


def test_a_wrong_body_is_damage_unless_nobody_asks() -> None:
    data = encode(PLAIN).replace(b"a body", b"b body")
    with pytest.raises(DamagedRecord, match=r"record at 0: BODYCRC 0x\w{8}, but the body has 0x\w{8}"):
        decode(data)
    assert decode(data, crc=Crc.NONE).body == b"b body"


def test_either_checksum_is_enough_for_who_asks_for_that_one() -> None:
    sealed = seal(encode(PLAIN._replace(properties=reserve(b""), body_crc=1)))
    assert decode(sealed, crc=Crc.RECORD).body == b"a body"
    with pytest.raises(DamagedRecord, match="BODYCRC 0x00000001"):
        decode(sealed, crc=Crc.BODY)
    with pytest.raises(DamagedRecord, match="record at 0: the record does not end in the property CRC"):
        decode(encode(PLAIN), crc=Crc.RECORD)
