from msgspec.structs import replace
from tests.store.conftest import SMALL, OpenStore, new_message

from cometmq.store import FlushDiskType
from cometmq.testing.memory_disk import MemoryDisk

SYNC = replace(SMALL, flush_disk_type=FlushDiskType.SYNC_FLUSH)
SELDOM = {"flush_interval_commit_log": 1_000_000}


def test_all_pointers_of_a_new_store_are_at_its_beginning(open_store: OpenStore) -> None:
    assert set(open_store().pointers) == {0}


def test_what_is_appended_may_be_read_at_once_and_is_on_the_disk_later(open_store: OpenStore) -> None:
    store = open_store(replace(SMALL, **SELDOM))
    end = sum(store.append([new_message()])[0].size for _ in range(3))
    begin, written, committed, flushed, confirmed, dispatched = store.pointers
    assert (begin, flushed) == (0, 0)
    assert written == committed == confirmed == dispatched == end
    store.wait_flushed().result()
    assert store.pointers.flushed == end


def test_under_sync_flush_nothing_is_confirmed_before_it_is_on_the_disk(open_store: OpenStore) -> None:
    tasks: list[object] = []
    store = open_store(replace(SYNC, **SELDOM), run_soon=tasks.append)
    store.flusher.sync_soon = lambda: None  # type: ignore[method-assign]  # the disk takes its time
    end = store.append([new_message()])[0].size
    assert store.pointers == (0, end, end, 0, 0, 0)
    store.wait_flushed().result()
    assert store.pointers == (0, end, end, end, end, 0)
    assert store.confirm_offset == end
    store._after_sync()
    assert store.pointers.dispatched == end


def test_a_store_with_a_pool_tells_how_much_of_it_is_free(open_store: OpenStore) -> None:
    assert open_store().free_buffers is None
    never = {"commit_interval_commit_log": 1_000_000, "wake_commit_when_put_message": False}
    pool = replace(SMALL, **SELDOM, **never, transient_store_pool_enable=True)
    store = open_store(pool, files=MemoryDisk(), run_soon=lambda _: None)
    assert store.free_buffers == 5
    store.append([new_message()])
    assert store.free_buffers == 4
    assert store.committed_offset == store.confirm_offset == 0 < store.written_offset
    for _ in range(100):
        store.append([new_message(body=bytes(800))])
    assert store.free_buffers == 0
