"""Looking at many entries of a ConsumeQueue at once: arrays of ``consume_queue.ENTRY_DTYPE``."""

import numpy as np
from numpy.typing import NDArray

from cometmq.format.consume_queue_ext import ADDRESS_MAX
from cometmq.format.queue_entry import FILLER


def addresses_of(block: np.ndarray) -> np.ndarray:
    """Give the addresses of units, in the order of their entries; entries without a unit have none."""
    codes = block["tags_code"]
    addresses: np.ndarray = codes[codes <= ADDRESS_MAX]
    return addresses


def are_fillers(block: np.ndarray) -> NDArray[np.bool_]:
    """Tell of each entry whether it stands for a message that is lost."""
    filler: NDArray[np.bool_] = (block["physical_offset"] == FILLER.physical_offset) & (
        block["size"] == FILLER.size
    )
    return filler


def count_good(block: np.ndarray, last: int) -> tuple[int, int]:
    """Count the entries before the first that is empty or does not lie behind the one before it.

    Args:
        last: physical offset of the entry before the block, -1 if none.
    """
    offsets = block["physical_offset"].astype(np.int64)
    sizes = block["size"].astype(np.int64)
    filler = are_fillers(block)
    reach = np.maximum.accumulate(np.concatenate(([last], np.where(filler, -1, offsets))))
    good = (sizes > 0) & (offsets >= 0) & (filler | (offsets > reach[:-1]))
    count = len(block) if good.all() else int(np.argmin(good))
    return count, int(reach[count])
