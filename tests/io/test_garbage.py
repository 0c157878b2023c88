import gc
import weakref
from collections.abc import Iterator

import pytest

from cometmq.io.clock import ManualClock
from cometmq.io.garbage import ALL_INTERVAL_MS, freeze_survivors


class Cycle:
    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def clock() -> Iterator[ManualClock]:
    """That by which survivors are set aside."""
    clock = ManualClock()
    with freeze_survivors(clock):
        yield clock
    assert gc.get_freeze_count() == 0


def test_what_outlives_a_full_collection_is_looked_at_again_when_it_is_time(clock: ManualClock) -> None:
    cycle = Cycle()
    is_there = weakref.ref(cycle)
    gc.collect()
    assert gc.get_freeze_count() > 0
    del cycle
    clock.advance(ALL_INTERVAL_MS - 1)
    gc.collect()
    assert is_there()
    clock.advance(1)
    gc.collect()
    assert not is_there()
    assert gc.get_freeze_count() > 0


def test_what_is_new_is_collected_as_ever(clock: ManualClock) -> None:
    gc.collect()
    clock.advance(1)
    is_there = weakref.ref(Cycle())
    assert is_there()
    gc.collect()
    assert not is_there()


@pytest.mark.usefixtures("clock")
def test_small_collections_set_nothing_aside() -> None:
    before = gc.get_freeze_count()
    gc.collect(1)
    assert gc.get_freeze_count() == before
