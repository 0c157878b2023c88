import sys
from typing import Any

import numpy as np
import pytest

from cometmq.kernels.arrays import Bytes, Longs

pytestmark = pytest.mark.usefixtures("compiled")


@pytest.mark.parametrize("makes_arrays", [False, True])
def test_what_a_kernel_was_given_is_let_go_of(makes_arrays: bool) -> None:
    from cometmq.kernels.compiling import buffers, jit, signatures  # noqa: PLC0415  imports numba

    @jit.kernel(signatures.long(signatures.bytes_in, signatures.bytes_object), makes_arrays=makes_arrays)
    def total(data: Bytes, text: Any) -> int:
        found = 0
        for i in range(len(data)):
            found += int(buffers.byte_at(data, i)) + int(buffers.byte_at(text, i))
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

    from cometmq.kernels.compiling import buffers, jit, signatures  # noqa: PLC0415  imports numba

    with pytest.raises(TypingError):

        @jit.kernel(signatures.long(signatures.longs_in))
        def longer(array: Longs) -> int:
            return len(buffers.doubled(array))
