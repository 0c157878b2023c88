"""What becomes of messages that come twice, and of those whose handler was killed."""

import asyncio
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.pulled import stored

from cometmq.client.handling.outcome import DeadLetter, PutOff, Retry
from cometmq.client.handling.subscription import Handler, Subscription
from cometmq.client.idempotence import Deduplicator, MemoryClaims
from cometmq.cluster.claims import Mark
from cometmq.errors import SettingsError
from cometmq.io.clock import ManualClock
from cometmq.message import StoredMessage

LEASE_MS = 60_000
KEEP_MS = 3_600_000
KILLED_AT = {"before the commit": 1, "after the commit": 1, "before the mark": 2}
"""Where a handler is killed, and how often its effect is there when the message came again."""
DIES = Path(__file__).with_name("dies.py")


class Shop:
    """Handles messages by their keys, with a deduplicator in memory."""

    def __init__(self, **options: Any) -> None:
        self.clock = ManualClock()
        store = MemoryClaims(clock=self.clock)
        self.deduplicator = Deduplicator(store, lease_ms=LEASE_MS, keep_ms=KEEP_MS)
        self.options = options

    async def handle(self, handler: Handler, *messages: StoredMessage) -> None:
        once = self.deduplicator.once("shop", "keys", ordered=self.options.get("ordered", False))
        subscription = Subscription("Orders", handler, once=once, **self.options)
        with ThreadPoolExecutor(1) as pool:
            await subscription.handle(list(messages), pool)


def keyed(key: str, queue_offset: int = 0) -> StoredMessage:
    return replace(stored(queue_offset), keys=(key,))


async def test_a_message_is_handled_once_until_that_is_forgotten() -> None:
    shop, handled = Shop(), list[StoredMessage]()
    for offset in range(3):
        await shop.handle(handled.append, keyed("a", offset))
    assert [message.queue_offset for message in handled] == [0]
    await shop.handle(handled.append, keyed("b", 3))
    shop.clock.advance(KEEP_MS)
    await shop.handle(handled.append, keyed("a", 4))
    assert [message.queue_offset for message in handled] == [0, 3, 4]


@pytest.mark.parametrize("error", [ValueError("no"), Retry(delay_level=3), DeadLetter()])
async def test_what_a_handler_fails_to_do_can_be_tried_again_at_once(error: Exception) -> None:
    shop, handled = Shop(), list[StoredMessage]()

    def fail(_: StoredMessage) -> None:
        raise error

    with pytest.raises(type(error)):
        await shop.handle(fail, keyed("a"))
    await shop.handle(handled.append, keyed("a"))
    assert handled == [keyed("a")]


async def test_what_is_being_handled_elsewhere_is_put_off_for_the_rest_of_the_lease() -> None:
    shop, may_end, begun = Shop(), asyncio.Event(), asyncio.Event()

    async def handle(_: StoredMessage) -> None:
        begun.set()
        await may_end.wait()

    first = asyncio.create_task(shop.handle(handle, keyed("a")))
    await begun.wait()
    shop.clock.advance(LEASE_MS // 2)
    with pytest.raises(PutOff) as put_off:
        await shop.handle(handle, keyed("a", 1))
    assert (put_off.value.delay_level, put_off.value.suspend_ms) == (4, LEASE_MS // 2)  # level 4: 30 s
    may_end.set()
    await first
    await shop.handle(handle, keyed("a", 1))


async def test_a_cancelled_handler_keeps_its_claim_until_its_lease_ends() -> None:
    shop, begun, handled = Shop(), asyncio.Event(), list[StoredMessage]()

    async def handle(_: StoredMessage) -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(shop.handle(handle, keyed("a")))
    await begun.wait()
    task.cancel()
    await asyncio.wait((task,))
    with pytest.raises(PutOff):
        await shop.handle(handled.append, keyed("a"))
    shop.clock.advance(LEASE_MS)
    await shop.handle(handled.append, keyed("a"))
    assert len(handled) == 1


@pytest.mark.parametrize(("ordered", "rest"), [(False, [0, 3]), (True, [0])])
async def test_of_a_batch_is_handled_what_nobody_else_handles(ordered: bool, rest: list[int]) -> None:
    shop, batches = Shop(batch_size=5, ordered=ordered), list[list[int]]()

    def handle(messages: list[StoredMessage]) -> None:
        batches.append([message.queue_offset for message in messages])

    await shop.deduplicator.store.claim("shop/elsewhere", LEASE_MS)
    await shop.deduplicator.store.finish("shop/done", shop.clock.now_ms() + KEEP_MS)
    messages = [keyed(key, offset) for offset, key in enumerate(["a", "done", "elsewhere", "b", "b"])]
    with pytest.raises(PutOff):
        await shop.handle(handle, *messages)
    assert batches == [rest]
    shop.clock.advance(LEASE_MS)
    await shop.handle(handle, *messages)
    assert [offset for batch in batches for offset in batch] == ([0, 3, 2] if not ordered else [0, 2, 3])


async def test_scopes_do_not_share_keys() -> None:
    handled: list[list[StoredMessage]] = []

    async def handle(messages: list[StoredMessage]) -> None:
        handled.append(messages)

    deduplicator = Deduplicator(MemoryClaims())
    for scope in ("billing/Orders", "billing/Invoices", "billing/Orders"):
        await deduplicator.once(scope, "keys").handle([keyed("a")], handle)
    assert len(handled) == 2


@pytest.mark.parametrize(("point", "effects"), KILLED_AT.items())
def test_a_kill_makes_no_second_effect_where_effect_and_mark_are_one(
    tmp_path: Path, point: str, effects: int
) -> None:
    path = tmp_path / "shop.db"
    killed = subprocess.run([sys.executable, "-W", "error", str(DIES), str(path), point], check=False)
    assert killed.returncode == -signal.SIGKILL
    again = [sys.executable, "-W", "error", str(DIES), str(path), "nowhere"]
    if point == "before the commit":
        refused = subprocess.run(again, capture_output=True, text=True, check=False)
        assert "PutOff" in refused.stderr, "the lease of the dead still runs"
    subprocess.run([*again, "later"], check=True)
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT count(*) FROM effects").fetchone() == (effects,)


def test_transactions_are_for_the_messages_that_are_being_handled_in_threads(tmp_path: Path) -> None:
    with Deduplicator(tmp_path / "shop.db") as deduplicator:
        with pytest.raises(SettingsError, match="not being handled"):
            deduplicator.transaction(keyed("a"))

        async def handle(messages: list[StoredMessage]) -> None:
            with pytest.raises(SettingsError, match="event loop"):
                deduplicator.transaction(messages[0])
            with pytest.raises(ZeroDivisionError):
                await asyncio.to_thread(fail, messages[0])
            await asyncio.to_thread(write, messages[0])

        def write(message: StoredMessage) -> None:
            with deduplicator.transaction(message) as connection:
                connection.execute("CREATE TABLE effects (key TEXT)")

        def fail(message: StoredMessage) -> None:
            with deduplicator.transaction(message):
                _ = 1 / 0

        asyncio.run(deduplicator.once("shop", "keys").handle([keyed("a")], handle))


def test_what_cannot_be_is_refused() -> None:
    for lease_ms, keep_ms in ((0, 1), (1, -1)):
        with pytest.raises(SettingsError, match="above 0"):
            Deduplicator(MemoryClaims(), lease_ms=lease_ms, keep_ms=keep_ms)
    with pytest.raises(SettingsError, match="SQLite"):
        Deduplicator(MemoryClaims()).transaction(keyed("a"))


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
