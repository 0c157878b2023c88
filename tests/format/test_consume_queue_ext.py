import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.format.consume_queue_ext import (
    ADDRESS_MAX,
    BITMAP_SIZE_MAX,
    OFFSET_MAX,
    UNIT_SIZE_MAX,
    ExtUnit,
    address_of,
    offset_of,
    pack,
    unpack,
)

SEEN = bytes.fromhex("0014000000000027a807000001a1fe3169910000")
"""The first unit of a real broker's file: tag ``TagA``, nobody filtered."""


def test_a_real_unit_reads_and_is_written_again_equal() -> None:
    unit = unpack(SEEN + bytes(20))
    assert unit == ExtUnit(2598919, 0x1A1FE316991, b"")
    assert pack(*unit) == SEEN


@given(
    st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**63 - 1), st.binary(max_size=64), st.binary(max_size=9)
)
def test_a_unit_reads_as_it_was_written(tags_code: int, time: int, bitmap: bytes, before: bytes) -> None:
    data = before + pack(tags_code, time, bitmap)
    unit = unpack(data, len(before))
    assert unit == ExtUnit(tags_code, time, bitmap)
    assert unit.size == len(data) - len(before)
    assert unpack(data[:-1], len(before)) is None


def test_a_blank_an_end_and_a_wrong_size_are_no_unit() -> None:
    assert unpack(b"\xff\xff" + bytes(30)) is None
    assert unpack(bytes(30)) is None
    assert unpack(b"") is None
    assert unpack(SEEN[:18] + b"\0\x01" + bytes(9)) is None
    assert unpack(SEEN[:18] + b"\xff\xff" + bytes(9)) is None


def test_the_largest_bitmap_fills_the_largest_unit() -> None:
    assert len(pack(0, 0, bytes(BITMAP_SIZE_MAX))) == UNIT_SIZE_MAX
    with pytest.raises(FormatError, match="has room for 32747"):
        pack(0, 0, bytes(BITMAP_SIZE_MAX + 1))


@given(st.integers(0, OFFSET_MAX))
def test_an_address_is_smaller_than_any_hash(offset: int) -> None:
    assert address_of(offset) <= ADDRESS_MAX < -(2**31)
    assert offset_of(address_of(offset)) == offset
