from collections.abc import Mapping
from pathlib import Path

from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.format import layout
from cometmq.io.clock import ManualClock
from cometmq.store.directory import StoreDirectory
from cometmq.store.inspect.status import StoreState, StoreStatus, status_of
from cometmq.store.log.commit_log import Pointers
from cometmq.testing.memory_disk import MemoryDisk


def status_on(disk: MemoryDisk) -> StoreStatus:
    with StoreDirectory(ROOT, SMALL, disk) as store:
        return status_of(store)


def test_of_a_closed_store_all_is_known(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    end = [store.append([new_message(body=bytes(300))])[0] for _ in range(60)][-1]
    store.close()
    status = status_on(disk)
    assert (status.state, status.holder, status.at_least) == (StoreState.CLOSED, None, ())
    assert status.pointers == Pointers(0, *[end.physical_offset + end.size] * 5)
    assert status.last_time == end.store_time


def test_of_an_open_or_a_killed_store_the_checkpoint_says_how_far_it_was_at_least(
    open_store: OpenStore, disk: MemoryDisk, clock: ManualClock
) -> None:
    store = open_store()
    for _ in range(60):
        clock.advance(10)
        placed = store.append([new_message(body=bytes(300))])[0]
    store.wait_flushed().result()
    clock.advance(1_000)
    store.tick()  # vouches for the log, not for the queues
    clock.advance(10)
    store.append([new_message(body=bytes(300))])
    opened, killed = status_on(disk), status_on(disk.after_kill())
    assert (opened.state, killed.state, killed.holder) == (StoreState.OPEN, StoreState.NOT_CLOSED, None)
    assert opened.at_least == ("written", "committed", *killed.at_least)
    assert opened.holder is not None and opened.pointers == killed.pointers
    assert killed.at_least == ("flushed", "confirmed", "dispatched")
    pointers = killed.pointers
    assert pointers.written == pointers.committed == store.written_offset
    assert (pointers.flushed, pointers.dispatched) == (placed.physical_offset, 0)
    assert all(known <= real for known, real in zip(pointers, store.pointers, strict=True))


def test_without_a_checkpoint_nothing_is_vouched_for(open_store: OpenStore, disk: MemoryDisk) -> None:
    store = open_store()
    store.append([new_message()])
    killed = disk.after_kill()
    killed.remove(layout.checkpoint_path(ROOT))
    assert status_on(killed).pointers[3:] == (0, 0, 0)


def test_stores_of_a_real_broker_are_told_too(golden: Mapping[str, Path]) -> None:
    with StoreDirectory(golden["store-clean"]) as store:
        assert status_of(store).pointers == Pointers(0, *[1_294_834] * 5)
    with StoreDirectory(golden["store-killed"]) as store:
        status = status_of(store)
        assert status.state is StoreState.NOT_CLOSED
        assert 0 < status.pointers.flushed <= status.pointers.written
