"""The types of what kernels are given and return, by which their signatures are written."""

from typing import Any

import numba
import numpy as np

types: Any = numba.types

none = types.void
long = types.int64
bytes_in = types.Array(types.uint8, 1, "C", readonly=True)
bytes_object = types.Bytes(types.uint8, 1, "C")
ints_in = types.Array(types.int32, 1, "C", readonly=True)
longs_in = types.Array(types.int64, 1, "C", readonly=True)
flags_in = types.Array(types.boolean, 1, "C", readonly=True)
bytes_out = types.Array(types.uint8, 1, "C")
ints_out = types.Array(types.int32, 1, "C")
longs_out = types.Array(types.int64, 1, "C")
flags_out = types.Array(types.boolean, 1, "C")
rows_out = types.Array(types.int64, 2, "C")


def record_of(dtype: np.dtype[np.void]) -> Any:
    """Return the type of a record."""
    return numba.from_dtype(dtype)


def records_out(dtype: np.dtype[np.void]) -> Any:
    """Return the type of an array of records that a kernel changes."""
    return types.Array(record_of(dtype), 1, "C")
