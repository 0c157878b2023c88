"""The arrays that operations take and return."""

import mmap
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Ints: TypeAlias = NDArray[np.int32]
Longs: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

PAGE_SIZE: Final = mmap.PAGESIZE
"""Bytes of a page of this machine's memory: for each page a byte says whether it is resident, or changed."""


def joined(constants: Iterable[bytes]) -> tuple[Bytes, Longs]:
    """Join constants: constant ``i`` is ``data[bounds[i]:bounds[i + 1]]``."""
    parts = list(constants)
    return np.frombuffer(b"".join(parts), np.uint8), np.array([0, *accumulate(map(len, parts))])


class ArrayTable:
    """Arrays that an operation takes as one argument: the address and the length of each.

    An array that is passed on its own costs a call 45 ns, and encoding sends takes thirteen.

    Attributes:
        numbers: int64[2 × arrays], address and length of each.
    """

    def __init__(self, *arrays: NDArray[Any]) -> None:
        self.numbers: Longs = np.zeros(2 * len(arrays), np.int64)
        self._arrays = list(arrays)
        for number, array in enumerate(arrays):
            self.put(number, array)

    def put(self, number: int, array: NDArray[Any]) -> None:
        """Replace an array by another; its memory stays as long as it is in the table."""
        assert array.flags.c_contiguous
        self._arrays[number] = array
        self.numbers[2 * number] = array.ctypes.data
        self.numbers[2 * number + 1] = len(array)
