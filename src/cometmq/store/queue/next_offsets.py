"""The next queue offset of every queue, in one array for Python and kernels."""

from array import array

import numpy as np
from numpy.typing import NDArray

GONE = -1
"""The next offset of a deleted queue: whoever kept its number must look the queue up again."""
_ROOM = 64


class NextOffsets:
    """Next queue offsets by queue number; a number is never used for another queue.

    Attributes:
        values: the offsets as Python's integers.
        longs: the same memory for kernels, ``int64[n]``.
    """

    def __init__(self) -> None:
        self.count = 0
        self._set_values(array("q", bytes(8 * _ROOM)))

    def add(self) -> int:
        """Add a queue, whose next offset is 0; return its number."""
        if self.count == len(self.values):
            self._set_values(self.values + array("q", bytes(8 * self.count)))
        self.count += 1
        return self.count - 1

    def _set_values(self, values: "array[int]") -> None:
        self.values = values
        self.longs: NDArray[np.int64] = np.frombuffer(values, np.int64)
