import numpy as np

from cometmq.format.consume_queue_ext import address_of
from cometmq.format.queue_entry import FILLER
from cometmq.store.queue.consume_queue import ENTRY_DTYPE
from cometmq.store.queue.entry_blocks import addresses_of, are_fillers, count_good


def block(*entries: tuple[int, int, int]) -> np.ndarray:
    return np.array(list(entries), ENTRY_DTYPE)


def test_only_entries_with_units_have_addresses() -> None:
    entries = block(
        (0, 50, 7), (50, 50, address_of(0)), FILLER, (100, 50, -(2**31)), (150, 50, address_of(34))
    )
    assert addresses_of(entries).tolist() == [address_of(0), address_of(34)]


def test_a_filler_is_known_by_offset_and_size() -> None:
    assert are_fillers(block(FILLER, (0, 50, 0), (1, FILLER.size, 0))).tolist() == [True, False, False]


def test_entries_are_good_up_to_one_that_is_empty_or_does_not_lie_behind_the_last() -> None:
    assert count_good(block((0, 50, 7), (50, 50, 7)), -1) == (2, 50)
    assert count_good(block((0, 50, 7), FILLER, (50, 50, 7)), -1) == (3, 50)
    assert count_good(block((0, 50, 7), (0, 0, 0), (50, 50, 7)), -1) == (1, 0)
    assert count_good(block((50, 50, 7), (40, 50, 7)), -1) == (1, 50)
    assert count_good(block((50, 50, 7)), 50) == (0, 50)
