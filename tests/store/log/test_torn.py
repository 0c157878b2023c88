from random import Random

import numpy as np
import pytest
from tests.store.conftest import new_message

from cometmq.format.record import encode_fields
from cometmq.format.scan import StopReason
from cometmq.kernels import loading
from cometmq.store.append import NewMessage
from cometmq.store.log.torn import SECTOR_SIZE, cut_torn

TIME = 1_000


def records(messages: list[NewMessage]) -> bytearray:
    data = bytearray()
    for message in messages:
        data += encode_fields(
            *(message.topic, message.body, message.properties, message.queue_id, 0, len(data), 0, 0),
            *(message.born_time, message.born_host, TIME, message.store_host, 0, 0),
        )
    return data


def count(data: bytearray, vouched_time: int = 0) -> int:
    buffer = np.frombuffer(data, np.uint8)
    scan = cut_torn(buffer, loading.ops.scan(buffer, base_offset=0), vouched_time)
    assert scan.count == len(scan.size) == len(scan.topic_length)
    assert scan.count == 0 or scan.stop_position <= len(data)
    return scan.count


def test_whole_records_are_left() -> None:
    chance = Random(1)
    messages = [
        new_message(
            "T" * chance.randint(1, 100),
            body=bytes(chance.randint(0, 700)),
            keys="k" * chance.randint(0, 700),
        )
        for _ in range(500)
    ]
    messages += [new_message("T", body=bytes(size)) for size in range(SECTOR_SIZE)]  # no properties at all
    assert count(records(messages)) == len(messages)


@pytest.mark.parametrize("size", range(0, 600, 7))
def test_a_record_counts_only_if_no_sector_of_its_texts_is_lost(size: int) -> None:
    whole = records([new_message("Topic", body=b"x"), new_message("Topic", body=b"y" * size, keys="k" * 900)])
    scan = loading.ops.scan(np.frombuffer(whole, np.uint8), base_offset=0)
    for sector in range(0, len(whole), SECTOR_SIZE):
        torn = bytearray(whole)
        torn[sector : sector + SECTOR_SIZE] = bytes(len(torn[sector : sector + SECTOR_SIZE]))
        if sector >= scan.position[1]:
            assert count(torn) == 1


def test_what_is_vouched_for_is_not_judged() -> None:
    data = records([new_message("Topic", body=b"x" * 400, keys="k" * 900)])
    data[2 * SECTOR_SIZE : 3 * SECTOR_SIZE] = bytes(SECTOR_SIZE)
    assert count(data, vouched_time=TIME) == 1
    buffer = np.frombuffer(data, np.uint8)
    scan = cut_torn(buffer, loading.ops.scan(buffer, base_offset=0), TIME - 1)
    assert (scan.count, scan.stop_position, scan.stop_reason) == (0, 0, StopReason.DAMAGED)
