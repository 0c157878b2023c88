from cometmq.client.idempotence import MemoryClaims
from cometmq.io.clock import ManualClock

LEASE_MS = 10


async def test_above_its_limit_it_forgets_what_was_done_first_and_nothing_that_is_in_progress() -> None:
    store = MemoryClaims(limit=3, clock=ManualClock())
    assert await claimed(store, "in progress")
    for key in ("first", "second", "third"):
        assert await claimed(store, key)
        await store.finish(key, 1_000)
    assert len(store) == 3
    assert [await claimed(store, key) for key in ("in progress", "second", "third")] == [False] * 3
    assert await claimed(store, "first")


async def test_above_its_limit_it_forgets_leases_that_expired() -> None:
    clock = ManualClock()
    store = MemoryClaims(limit=1, clock=clock)
    assert await claimed(store, "died")
    clock.advance(LEASE_MS)
    assert await claimed(store, "other")
    assert len(store) == 1


async def test_closed_it_holds_nothing() -> None:
    store = MemoryClaims()
    assert await claimed(store, "a")
    store.close()
    assert len(store) == 0


async def claimed(store: MemoryClaims, key: str) -> bool:
    return (await store.claim(key, LEASE_MS)).ours
