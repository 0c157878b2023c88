from typing import NamedTuple

import numpy as np
import pytest

from cometmq.format import record
from cometmq.format.checksum import Crc
from cometmq.format.host import pack_host
from cometmq.format.property_crc import reserve, seal
from cometmq.format.record import Record, encode
from cometmq.format.scan import StopReason
from cometmq.kernels import plain
from cometmq.kernels.ops import Ops, Scan

HOST = pack_host("127.0.0.1", 10911)
SMALLEST = Record("", b"", b"", 0, 0, 0, 0, 0, 1, HOST, 2, HOST)
SIZE = len(encode(SMALLEST))
V6 = pack_host("::1", 10911)


class Field(NamedTuple):
    """A number in a record; a negative position is from its end."""

    position: int
    size: int


USUAL = SMALLEST._replace(topic="TopicA", body=b"a body", properties=b"KEYS\x01k\x02")
RECORDS = [
    encode(USUAL._replace(**changed))
    for changed in (
        {},
        {"topic": "t" * 128},
        {"magic": record.MAGIC_V2},
        {"born_host": V6},
        {"store_host": V6, "born_host": V6},
        {"topic": "", "body": b"", "properties": b""},
    )
]
SEALED = seal(encode(USUAL._replace(properties=reserve(USUAL.properties))))
RECORDS.append(SEALED)
STEPS = (-24, -12, -3, -2, -1, 0, 1, 2, 3, 12, 24, 300, 33_000)
FIELDS = [Field(position, 4) for position in (0, 4, 8, 32, 36, 84, 96, 108)]  # but for hosts and times
FIELDS += [Field(position, size) for position in range(86, 125) for size in (1, 2)]  # lengths, somewhere
FIELDS += [Field(-2 - len(USUAL.properties), 2), Field(-2, 2)]


def log_of(count: int) -> bytes:
    return b"".join(encode(SMALLEST._replace(physical_offset=number * SIZE)) for number in range(count))


def test_finds_each_field_where_the_record_has_it(ops: Ops) -> None:
    whole = Record(
        topic="TopicA",
        body=b"a body",
        properties=b"TAGS\x01TagA\x02",
        queue_id=3,
        queue_offset=4,
        physical_offset=1005,
        flag=6,
        sys_flag=0x100,
        born_time=7,
        born_host=pack_host("::1", 8),
        store_time=9,
        store_host=pack_host("10.0.0.1", 11),
        reconsume_times=12,
        prepared_transaction_offset=13,
        body_crc=0xFEDCBA98,
    )
    data = b"*****" + encode(whole)
    scan = ops.scan(data, base_offset=1000, start=5, crc=Crc.NONE)

    def part(position: str, length: str) -> bytes:
        begin = int(getattr(scan, position)[0])
        return data[begin : begin + int(getattr(scan, length)[0])]

    assert scan.count == 1
    assert (scan.stop_position, scan.stop_reason) == (len(data), StopReason.END)
    assert (scan.position[0], scan.size[0]) == (5, len(data) - 5)
    assert part("topic_position", "topic_length") == b"TopicA"
    assert part("body_position", "body_length") == whole.body
    assert part("properties_position", "properties_length") == whole.properties
    assert part("born_host_position", "born_host_length") == whole.born_host
    assert part("store_host_position", "store_host_length") == whole.store_host
    same = ["queue_id", "queue_offset", "physical_offset", "flag", "born_time", "store_time"]
    same += ["reconsume_times", "prepared_transaction_offset"]
    assert [getattr(scan, name)[0] for name in same] == [getattr(whole, name) for name in same]
    assert scan.sys_flag[0] == 0x110
    assert scan.body_crc[0] == 0xFEDCBA98 - 2**32


def test_has_numbers_of_the_widths_that_the_record_has(ops: Ops) -> None:
    scan = ops.scan(b"", base_offset=0)
    widths = {name: getattr(scan, name).dtype for name in Scan._fields[:-2]}
    assert scan.count == 0 and scan.stop_reason is StopReason.END
    assert {name for name, width in widths.items() if width == np.int64} == set(Scan._fields[:11])
    assert {name for name, width in widths.items() if width == np.int32} == set(Scan._fields[11:-2])


@pytest.mark.parametrize("count", [1, 63, 64, 65, 1000, 5000])
def test_makes_room_for_however_many_records_there_are(compiled: Ops, count: int) -> None:
    data = log_of(count)  # smaller ones than the first guess of the room is for
    scan = compiled.scan(data + bytes(8), base_offset=0)
    assert scan.position.tolist() == list(range(0, len(data), SIZE))
    assert set(scan.size.tolist()) == {SIZE}
    assert (scan.stop_position, scan.stop_reason) == (len(data), StopReason.END)


def test_goes_on_where_it_stopped_for_the_number_of_records(ops: Ops) -> None:
    data = log_of(10)
    position, found = 0, []
    while True:
        scan = ops.scan(data, base_offset=0, start=position, max_records=4)
        found.append((scan.count, scan.stop_reason))
        position = scan.stop_position
        if scan.stop_reason is not StopReason.LIMIT:
            break
    assert found == [(4, StopReason.LIMIT), (4, StopReason.LIMIT), (2, StopReason.END)]
    assert position == len(data)


def test_tells_of_the_end_and_not_of_the_limit_where_both_are(ops: Ops) -> None:
    assert ops.scan(log_of(4), base_offset=0, max_records=4).stop_reason is StopReason.END


def test_records_from_anywhere_need_not_lie_where_they_say(ops: Ops) -> None:
    data = b"".join(encode(SMALLEST._replace(physical_offset=place)) for place in (700, 5, 2**60))
    scan = ops.scan(data, base_offset=None)
    assert scan.physical_offset.tolist() == [700, 5, 2**60]
    assert (scan.stop_position, scan.stop_reason) == (len(data), StopReason.END)
    assert ops.scan(data, base_offset=0).stop_reason is StopReason.DAMAGED


def test_reads_a_view_that_cannot_be_written_to(ops: Ops) -> None:
    assert ops.scan(memoryview(log_of(2)), base_offset=0).count == 2
    frozen = np.frombuffer(log_of(2), np.uint8)
    assert ops.scan(frozen, base_offset=0).count == 2


@pytest.mark.parametrize("field", FIELDS)
def test_stops_where_the_plain_scan_stops_whatever_a_field_holds(compiled: Ops, field: Field) -> None:
    for whole in RECORDS:
        position = field.position if field.position >= 0 else len(whole) + field.position
        old = int.from_bytes(whole[position : position + field.size], "big")
        numbers = {old + step for step in STEPS} | {0, 127, 128, 255, 0x7FFF, 0x8000, 0x7FFFFFFF, 0x80000000}
        for number in numbers | {record.MAGIC_V1, record.MAGIC_V2, record.MAGIC_BLANK, -1}:
            data = bytearray(whole)
            bits = 8 * field.size
            data[position : position + field.size] = (number % (1 << bits)).to_bytes(field.size, "big")
            for following in (b"", bytes(60), bytes(40_000)):
                for crc in Crc:
                    found, expected = (
                        each.scan(data + following, base_offset=0, crc=crc) for each in (compiled, plain)
                    )
                    assert found[-2:] == expected[-2:]
                    assert found.properties_length.tolist() == expected.properties_length.tolist()


@pytest.mark.parametrize("cut", range(125))
def test_stops_where_the_plain_scan_stops_wherever_the_buffer_ends(compiled: Ops, cut: int) -> None:
    for whole in RECORDS:
        for data in (whole[:cut], whole[: -1 - cut], bytes(4) + whole[4:cut], whole[:4] + bytes(cut)):
            found, expected = (each.scan(data, base_offset=0) for each in (compiled, plain))
            assert (found.count, *found[-2:]) == (expected.count, *expected[-2:])


def test_a_topic_of_more_than_127_bytes_in_v1_is_damage(ops: Ops) -> None:
    whole = encode(SMALLEST)
    size = SIZE + 200
    data = size.to_bytes(4, "big") + whole[4:-3] + bytes([200]) + b"t" * 200 + whole[-2:]
    assert len(data) == size
    assert ops.scan(data, base_offset=0).stop_reason is StopReason.DAMAGED


def test_the_crc_of_an_empty_body_is_not_looked_at(ops: Ops) -> None:
    assert ops.scan(encode(SMALLEST._replace(body_crc=7)), base_offset=0).count == 1


def test_the_property_crc_covers_each_bit_of_a_record(ops: Ops) -> None:
    assert ops.scan(SEALED, base_offset=0, crc=Crc.RECORD).count == 1
    for bit in range(8 * len(SEALED)):
        data = bytearray(SEALED)
        data[bit // 8] ^= 1 << bit % 8
        assert ops.scan(data, base_offset=0, crc=Crc.RECORD).count == 0


def test_a_record_without_the_property_crc_is_damaged_where_it_is_asked_for(ops: Ops) -> None:
    for whole in RECORDS[:-1]:
        scan = ops.scan(whole, base_offset=0, crc=Crc.RECORD)
        assert (scan.count, scan.stop_reason) == (0, StopReason.DAMAGED)
