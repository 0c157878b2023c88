import struct
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.kernels.arrays import Bytes, Longs

pytestmark = pytest.mark.usefixtures("compiled")


@settings(deadline=None)  # the first call compiles
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 3))
def test_numbers_are_read_and_written_big_endian(number: int, position: int) -> None:
    from cometmq.kernels.compiling import jit  # noqa: PLC0415  imports numba

    data = b"***" + struct.pack(">q", number) + b"***"
    buffer = np.frombuffer(data, np.uint8)
    assert jit.long_at(buffer, position) == struct.unpack_from(">q", data, position)[0]
    assert jit.int_at(buffer, position) == struct.unpack_from(">i", data, position)[0]
    assert jit.short_at(buffer, position) == struct.unpack_from(">h", data, position)[0]
    assert jit.byte_at(buffer, position) == data[position]
    written = np.zeros(12, np.uint8)
    jit.put_long(written, 1, number)
    jit.put_int(written, 8, number >> 32)
    assert written.tobytes() == b"\0" + data[3:10] + data[3:7]


@pytest.mark.parametrize("makes_arrays", [False, True])
def test_what_a_kernel_was_given_is_let_go_of(makes_arrays: bool) -> None:
    from cometmq.kernels.compiling import jit  # noqa: PLC0415  imports numba

    @jit.kernel(jit.long(jit.bytes_in, jit.bytes_object), makes_arrays=makes_arrays)
    def total(data: Bytes, text: Any) -> int:
        found = 0
        for i in range(len(data)):
            found += int(jit.byte_at(data, i)) + int(jit.byte_at(text, i))
        return found

    owner, text = bytearray(b"\1\2\3"), bytes([10, 20, 30])
    array = np.frombuffer(owner, np.uint8)
    counts = [sys.getrefcount(each) for each in (array, text)]
    assert [total(array, text) for _ in range(100)] == [66] * 100
    assert [sys.getrefcount(each) for each in (array, text)] == counts
    del array
    owner.append(4)  # which nobody has a view of


def test_a_kernel_that_makes_arrays_says_so() -> None:
    from numba.core.errors import TypingError  # noqa: PLC0415  slow

    from cometmq.kernels.compiling import jit  # noqa: PLC0415  imports numba

    with pytest.raises(TypingError):

        @jit.kernel(jit.long(jit.longs_in))
        def longer(array: Longs) -> int:
            return len(jit.doubled(array))


def test_what_is_fetched_soon_may_lie_anywhere() -> None:
    from cometmq.kernels.compiling import jit  # noqa: PLC0415  imports numba

    @jit.kernel(jit.long(jit.bytes_in))
    def look(data: Bytes) -> int:
        for position in (-(1 << 40), -1, 0, len(data), 1 << 40):
            jit.fetch_soon(data, position)
        return int(jit.byte_at(data, 0))

    assert look(np.full(3, 7, np.uint8)) == 7
