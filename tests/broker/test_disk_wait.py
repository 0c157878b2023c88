import asyncio
from concurrent.futures import Future

from cometmq.broker.disk_wait import DiskWait
from cometmq.errors import StoreNotWritable

MINUTE_MS = 60_000


def outcome(synced: "Future[None]", timeout_ms: int = MINUTE_MS) -> str | None:
    async def main() -> str | None:
        said: asyncio.Queue[str | None] = asyncio.Queue()
        DiskWait(synced, timeout_ms, said.put_nowait)
        first = await said.get()
        if not synced.done():
            synced.set_result(None)
        await asyncio.to_thread(int)  # a turn for what may still come
        assert said.empty(), "said twice"
        return first

    return asyncio.run(main())


def test_a_sync_that_is_over_is_sure() -> None:
    synced: Future[None] = Future()
    synced.set_result(None)
    assert outcome(synced) is None


def test_a_sync_that_fails_is_not() -> None:
    synced: Future[None] = Future()
    synced.set_exception(StoreNotWritable("the disk is broken"))
    assert outcome(synced) == "the disk is broken"


def test_a_sync_that_takes_too_long_is_not_and_is_said_once() -> None:
    said = outcome(Future(), timeout_ms=1)
    assert said is not None and "after 1 ms (syncFlushTimeout)" in said
