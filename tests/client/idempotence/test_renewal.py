"""Claims of messages whose handlers take longer than a lease."""

import asyncio

import pytest
from msgspec.structs import replace
from tests.pulled import stored

from cometmq.client.handling.outcome import PutOff
from cometmq.client.idempotence import Deduplicator, MemoryClaims
from cometmq.cluster.claims import Mark
from cometmq.io.clock import ManualClock
from cometmq.message import StoredMessage


class Renewed(MemoryClaims):
    """Counts renewals, for which a test can wait; the first ones may fail."""

    def __init__(self, clock: ManualClock, failures: int = 0) -> None:
        super().__init__(clock=clock)
        self._failures = failures
        self._until_ms = 0
        self._came = asyncio.Event()

    async def renew(self, key: str, mark: Mark, lease_ms: int) -> Mark | None:
        if self._failures > 0:
            self._failures -= 1
            raise OSError("the disk is away")
        renewed = await super().renew(key, mark, lease_ms)
        self._until_ms = self._now_ms() + lease_ms
        self._came.set()
        return renewed

    async def until(self, until_ms: int) -> None:
        """Wait until a claim lasts for so long."""
        while self._until_ms < until_ms:
            self._came.clear()
            await self._came.wait()


def keyed(key: str, queue_offset: int = 0) -> StoredMessage:
    return replace(stored(queue_offset), keys=(key,))


async def test_a_claim_is_renewed_while_its_handler_works() -> None:
    clock, may_end, begun = ManualClock(), asyncio.Event(), asyncio.Event()
    renewed = Renewed(clock)
    deduplicator = Deduplicator(renewed, lease_ms=30)
    handled: list[StoredMessage] = []

    async def work(messages: list[StoredMessage]) -> None:
        handled.extend(messages)
        begun.set()
        await may_end.wait()

    once = deduplicator.once("shop", "keys")
    first = asyncio.create_task(once.handle([keyed("a")], work))
    await begun.wait()
    for _ in range(5):  # so two and a half leases pass
        clock.advance(15)
        await renewed.until(clock.monotonic_ms() + 30)
        with pytest.raises(PutOff):
            await once.handle([keyed("a", 1)], work)
    may_end.set()
    await first
    await once.handle([keyed("a", 2)], work)
    assert [message.queue_offset for message in handled] == [0]


async def test_a_claim_that_was_renewed_is_given_back_and_a_renewal_that_fails_harms_nobody() -> None:
    clock = ManualClock()
    renewed = Renewed(clock, failures=1)
    once = Deduplicator(renewed, lease_ms=30).once("shop", "keys")

    async def fail(_: list[StoredMessage]) -> None:
        clock.advance(15)
        await renewed.until(clock.monotonic_ms() + 30)
        raise ValueError("not yet")

    with pytest.raises(ValueError, match="not yet"):
        await once.handle([keyed("a")], fail)
    assert not len(renewed)


async def test_a_claim_that_was_lost_is_left_to_whoever_has_it() -> None:
    clock = ManualClock()
    store = Renewed(clock)
    once = Deduplicator(store, lease_ms=30).once("shop", "keys")

    async def lose(_: list[StoredMessage]) -> None:
        clock.advance(30)
        await store.claim("shop/a", 1_000)
        clock.advance(1)
        await store.until(clock.monotonic_ms() + 30)
        raise ValueError("not yet")

    with pytest.raises(ValueError, match="not yet"):
        await once.handle([keyed("a")], lose)
    assert not (await store.claim("shop/a", 1)).ours
