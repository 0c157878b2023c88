import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.kernels.arrays import Bytes

pytestmark = pytest.mark.usefixtures("compiled")


@settings(deadline=None)  # the first call compiles
@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 3))
def test_numbers_are_read_and_written_big_endian(number: int, position: int) -> None:
    from cometmq.kernels.compiling import buffers  # noqa: PLC0415  imports numba

    data = b"***" + struct.pack(">q", number) + b"***"
    buffer = np.frombuffer(data, np.uint8)
    assert buffers.long_at(buffer, position) == struct.unpack_from(">q", data, position)[0]
    assert buffers.int_at(buffer, position) == struct.unpack_from(">i", data, position)[0]
    assert buffers.short_at(buffer, position) == struct.unpack_from(">h", data, position)[0]
    assert buffers.byte_at(buffer, position) == data[position]
    written = np.zeros(12, np.uint8)
    buffers.put_long(written, 1, number)
    buffers.put_int(written, 8, number >> 32)
    assert written.tobytes() == b"\0" + data[3:10] + data[3:7]


def test_what_is_fetched_soon_may_lie_anywhere() -> None:
    from cometmq.kernels.compiling import buffers, jit, signatures  # noqa: PLC0415  imports numba

    @jit.kernel(signatures.long(signatures.bytes_in))
    def look(data: Bytes) -> int:
        for position in (-(1 << 40), -1, 0, len(data), 1 << 40):
            buffers.fetch_soon(data, position)
        return int(buffers.byte_at(data, 0))

    assert look(np.full(3, 7, np.uint8)) == 7
