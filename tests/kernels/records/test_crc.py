import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.kernels.ops import Ops


@given(st.binary(max_size=300))
def test_gives_what_zlib_gives(compiled: Ops, data: bytes) -> None:
    assert compiled.crc32(data) == zlib.crc32(data)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 33, 63, 64, 65, 80, 127, 128, 129, 200, 100_000])
def test_gives_what_zlib_gives_at_any_size_and_alignment(ops: Ops, size: int) -> None:
    data = np.random.default_rng(size).integers(0, 256, size + 16, np.uint8)
    for start in range(16):
        part = data[start : start + size]
        assert ops.crc32(part) == zlib.crc32(part.tobytes())


def test_gives_the_check_value_of_crc_32(ops: Ops) -> None:
    assert ops.crc32(b"123456789") == 0xCBF43926
