"""Choose the operations on records for a Spark task: plain ones until a process has read enough of them.

Loading the compiled operations takes a process half a second, or half a minute if they have to be compiled.
Most tasks of streams and the first ones of a session read little; but a worker stays for many of them, so all
that it has read counts.
"""

from typing import Final

from cometmq import kernels
from cometmq.kernels.ops import Ops

WORTH_LOADING_BYTES: Final = 1024 * 1024
"""A quarter of what takes the plain operations as long as the loading: more will mostly follow."""

_read = 0
"""Bytes of records that this process has read."""


def ops_for(size: int) -> Ops:
    """Return the operations for the next ``size`` bytes of records; load the compiled ones if it is time."""
    global _read  # noqa: PLW0603  kernels are loaded for the process
    _read += size
    return kernels.load_if_possible() if _read >= WORTH_LOADING_BYTES else kernels.loading.ops
