from cometmq.client.idempotence import MemoryClaims

LEASE_MS = 10


async def test_above_its_limit_it_forgets_what_was_done_first_and_nothing_that_is_in_progress() -> None:
    store = MemoryClaims(limit=3)
    assert await claimed(store, "in progress", 0)
    for key in ("first", "second", "third"):
        assert await claimed(store, key, 0)
        await store.finish(key, 1_000)
    assert len(store) == 3
    assert [await claimed(store, key, 1) for key in ("in progress", "second", "third")] == [False] * 3
    assert await claimed(store, "first", 1)


async def test_above_its_limit_it_forgets_leases_that_expired() -> None:
    store = MemoryClaims(limit=1)
    assert await claimed(store, "died", 0)
    assert await claimed(store, "other", LEASE_MS)
    assert len(store) == 1


async def test_closed_it_holds_nothing() -> None:
    store = MemoryClaims()
    assert await claimed(store, "a", 0)
    store.close()
    assert len(store) == 0


async def claimed(store: MemoryClaims, key: str, now_ms: int) -> bool:
    return (await store.claim(key, now_ms, LEASE_MS)).ours
