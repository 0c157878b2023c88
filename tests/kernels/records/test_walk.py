"""A record in the place that an entry names; ``test_scan`` compares walks of any bytes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.kit.chosen_records import BEGIN, LONG, record_of

from cometmq.format.checksum import Crc
from cometmq.format.scan import is_message as plain_is_message
from cometmq.kernels.arrays import Bytes
from cometmq.kernels.compiling.jit import kernel
from cometmq.kernels.compiling.signatures import bytes_in, long, types
from cometmq.kernels.records.walk import is_message

PLACE = 7
KINDS: list[dict[str, Any]] = [{}, {"topic": "t" * LONG}, {"host": 20}, {"body": b""}]


@kernel(types.boolean(bytes_in, long, long, long, long))
def _is_message(file: Bytes, position: int, size: int, physical_offset: int, queue_offset: int) -> Any:
    return is_message(file, position, size, physical_offset, queue_offset)


def holds(record: bytes, physical_offset: int = BEGIN + PLACE, queue_offset: int = 3, size: int = 0) -> bool:
    file = np.frombuffer(bytes(PLACE) + record + bytes(PLACE), np.uint8)
    return bool(_is_message(file, PLACE, size or len(record), physical_offset, queue_offset))


@pytest.mark.parametrize("kind", KINDS)
def test_a_whole_record_in_its_place_is_one(kind: dict[str, Any]) -> None:
    record = record_of(3, PLACE, **kind)
    assert holds(record)
    assert not holds(record, physical_offset=BEGIN)
    assert not holds(record, queue_offset=4)
    assert not holds(record, size=len(record) + 1)


@pytest.mark.parametrize("at", range(8))
def test_size_and_magic_count(at: int) -> None:
    record = bytearray(record_of(3, PLACE))
    record[at] ^= 0x10
    assert not holds(bytes(record))


def test_a_body_that_was_changed_is_none() -> None:
    record = record_of(3, PLACE)
    assert not holds(record.replace(b"body", b"bodY"))


@given(st.integers(0), st.integers(0, 7), st.integers(-3, 3))
@example(at=4, bit=2, growth=0)
def test_the_plain_and_the_compiled_check_agree_on_any_flipped_bit(at: int, bit: int, growth: int) -> None:
    for kind in KINDS:
        record = bytearray(record_of(3, PLACE, **kind))
        record[at % len(record)] ^= 1 << bit
        size = len(record) + growth
        file = bytes(PLACE) + record + bytes(PLACE)
        expected = plain_is_message(file, PLACE, size, BEGIN + PLACE, 3, Crc.BODY)
        assert holds(bytes(record), size=size) == expected
