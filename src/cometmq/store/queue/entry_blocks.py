"""Check many entries of a ConsumeQueue at once: a block is an array ``[n]`` of ``ENTRY_DTYPE``."""

import numpy as np
from numpy.typing import NDArray

from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import FILLER


def addresses_of(block: np.ndarray) -> np.ndarray:
    """Return the addresses of the entries' units, in the order of the entries that have one."""
    codes = block["tags_code"]
    addresses: np.ndarray = codes[codes <= ADDRESS_MAX]
    return addresses


def are_fillers(block: np.ndarray) -> NDArray[np.bool_]:
    """Return for each entry whether it is a filler, which stands for a lost message (``bool[n]``)."""
    filler: NDArray[np.bool_] = (block["physical_offset"] == FILLER.physical_offset) & (
        block["size"] == FILLER.size
    )
    return filler


def count_good(block: np.ndarray, last: int) -> tuple[int, int]:
    """Count the entries before the first that is empty or does not lie behind the one before it.

    Args:
        last: physical offset of the entry before the block, -1 if none.

    Returns:
        The count, and the physical offset of the last counted entry that is no filler, else ``last``.
    """
    offsets = block["physical_offset"].astype(np.int64)
    sizes = block["size"].astype(np.int64)
    filler = are_fillers(block)
    reach = np.maximum.accumulate(np.concatenate(([last], np.where(filler, -1, offsets))))
    good = (sizes > 0) & (offsets >= 0) & (filler | (offsets > reach[:-1]))
    count = len(block) if good.all() else int(np.argmin(good))
    return count, int(reach[count])
