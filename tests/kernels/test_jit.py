import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.usefixtures("compiled")


@settings(deadline=None)  # the first call compiles
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 3))
def test_numbers_are_read_and_written_big_endian(number: int, position: int) -> None:
    from cometmq.kernels import jit  # noqa: PLC0415  imports numba

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
