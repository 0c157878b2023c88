"""The next queue offset of every queue, in one array that kernels number messages from too: the one truth.

Python reads and writes plain integers of ``values``; ``longs`` is the same memory for kernels.
"""

from array import array

import numpy as np
from numpy.typing import NDArray

GONE = -1
"""The next offset of a queue that is deleted: whoever still has its number must look again."""
_ROOM = 64


class NextOffsets:
    """Next queue offsets by queue number, which is given once and never again."""

    def __init__(self) -> None:
        self.count = 0
        self._make(array("q", bytes(8 * _ROOM)))

    def add(self) -> int:
        """Give a new queue its number; its next offset is 0."""
        if self.count == len(self.values):
            self._make(self.values + array("q", bytes(8 * self.count)))
        self.count += 1
        return self.count - 1

    def _make(self, values: "array[int]") -> None:
        self.values = values
        self.longs: NDArray[np.int64] = np.frombuffer(values, np.int64)
