"""What a record must be for kernels to give it; ``test_pull`` and ``test_query`` let it be anything."""

from typing import Any

import numpy as np
import pytest
from tests.kernels.pulls.test_plain_choice import BEGIN, LONG, record_of

from cometmq.kernels.compiling.jit import bytes_in, kernel, long, types
from cometmq.kernels.ops import Bytes
from cometmq.kernels.records.record_check import is_message

PLACE = 7


@kernel(types.boolean(bytes_in, long, long, long, long))
def _is_message(file: Bytes, position: int, size: int, physical_offset: int, queue_offset: int) -> Any:
    return is_message(file, position, size, physical_offset, queue_offset)


def holds(record: bytes, physical_offset: int = BEGIN + PLACE, queue_offset: int = 3, size: int = 0) -> bool:
    file = np.frombuffer(bytes(PLACE) + record + bytes(PLACE), np.uint8)
    return bool(_is_message(file, PLACE, size or len(record), physical_offset, queue_offset))


@pytest.mark.parametrize("kind", [{}, {"topic": "t" * LONG}, {"host": 20}, {"body": b""}])
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
