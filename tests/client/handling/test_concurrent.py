"""What the workers do with messages; those that come back are in ``test_group_end_to_end``."""

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace
from tests.client.members import settled
from tests.pulled import pulled, stored

from cometmq.client.handling import concurrent
from cometmq.client.handling.concurrent import ConcurrentHandling
from cometmq.client.handling.failure_log import FailureLog
from cometmq.client.handling.outcome import DeadLetter, Retry
from cometmq.client.handling.send_back import DEAD_LETTER, SendBack
from cometmq.client.handling.subscription import Handler, Subscription
from cometmq.errors import NetworkError, UndecodableBody
from cometmq.message import MessageQueue, StoredMessage

PATIENCE_S = 60
TRIES = [(0, 0), (1, 16), (2, 0), (3, 16)]
"""Queue offsets, and how often each message was retried."""


class Returned(SendBack):
    """Receives what is sent back; the first ``failures`` times nobody does."""

    def __init__(self, failures: int = 0) -> None:
        self.levels: dict[int, int] = {}
        self._failures = failures

    async def send(self, queue: MessageQueue, message: StoredMessage, delay_level: int) -> None:
        del queue
        if self._failures:
            self._failures -= 1
            raise NetworkError("nobody there")
        self.levels[message.queue_offset] = delay_level


@asynccontextmanager
async def working(
    handler: Handler, send_back: SendBack | None = None, *, workers: int = 2, **options: Any
) -> AsyncIterator[ConcurrentHandling]:
    subscription = Subscription("Orders", handler, **options)
    find = {"Orders": subscription}.get
    with ThreadPoolExecutor(1) as pool:
        handling = ConcurrentHandling(
            find,
            asyncio.Semaphore(workers),
            workers,
            partial(Subscription.handle, pool=pool),
            FailureLog("billing", 16),
            send_back,
        )
        handling.start()
        yield handling
        handling.request_stop()
        assert await handling.finish(PATIENCE_S)


async def test_messages_are_handled_at_the_same_time_up_to_the_limit() -> None:
    both, handled = asyncio.Barrier(2), asyncio.Semaphore(0)

    async def handle(_: StoredMessage) -> None:
        await both.wait()
        handled.release()

    messages = [stored(offset) for offset in range(4)]
    queue = pulled(*messages)
    async with working(handle) as handling:
        handling.put(queue, messages)
        for _ in messages:
            await handled.acquire()
    assert queue.to_commit == 4


async def test_what_fails_is_sent_back_with_the_level_that_was_asked_for() -> None:
    raised: list[Exception | None] = [ValueError("no"), Retry(delay_level=7), DeadLetter(), None]
    handled = asyncio.Semaphore(0)

    async def handle(message: StoredMessage) -> None:
        handled.release()
        if (error := raised[message.queue_offset]) is not None:
            raise error

    messages, returned = [stored(offset) for offset in range(4)], Returned()
    queue = pulled(*messages)
    async with working(handle, returned, workers=1) as handling:
        handling.put(queue, messages)
        for _ in messages:
            await handled.acquire()
    assert returned.levels == {0: 0, 1: 7, 2: DEAD_LETTER}
    assert queue.to_commit == 4


async def test_a_body_that_cannot_be_decompressed_fails_alone_and_not_the_batch_it_is_in() -> None:
    handled: list[list[int]] = []
    all_came = asyncio.Semaphore(0)

    async def handle(messages: list[StoredMessage]) -> None:
        offsets = [message.queue_offset for message in messages]
        for message in messages:
            if message.queue_offset == 1:
                if len(messages) == 1:
                    all_came.release()
                raise UndecodableBody(message, "no zlib")
        handled.append(offsets)
        all_came.release()

    messages, returned = [stored(offset) for offset in range(5)], Returned()
    queue = pulled(*messages)
    async with working(handle, returned, workers=1, batch_size=3) as handling:
        handling.put(queue, messages)
        for _ in range(4):
            await all_came.acquire()
    assert handled == [[3, 4], [0], [2]]
    assert returned.levels == {1: 0}
    assert queue.to_commit == 5


async def test_what_cannot_be_sent_back_is_handled_here_again(monkeypatch: Any) -> None:
    async def main() -> None:
        tries: asyncio.Queue[int] = asyncio.Queue()

        async def handle(message: StoredMessage) -> None:
            tries.put_nowait(message.reconsume_times)
            if message.reconsume_times == 0:
                raise ValueError("no")

        queue = pulled(stored(0))
        async with working(handle, Returned(failures=1)) as handling:
            handling.put(queue, [stored(0)])
            assert [await tries.get(), await tries.get()] == [0, 1]
        assert queue.to_commit == 1

    monkeypatch.setattr(concurrent, "LOCAL_RETRY_S", 0.0)
    await main()


async def test_a_failure_is_logged_with_what_becomes_of_the_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    raised = [ValueError("no"), ValueError("bad"), DeadLetter("who?"), Retry()]

    async def handle(message: StoredMessage) -> None:
        raise raised[message.queue_offset]

    messages = [replace(stored(offset), keys=("42",), reconsume_times=times) for offset, times in TRIES]
    queue = pulled(*messages)
    async with working(handle, Returned(), workers=1) as handling:
        handling.put(queue, messages)
        await settled(lambda: queue.to_commit == 4)
    failed = "a handler of topic 'Orders', group 'billing' failed: message "
    dead = "a dead letter in topic %DLQ%billing: message "
    assert caplog.messages == [
        f"{failed}message-0, keys '42', try 1 of 17: delivered again in about 10 s",
        f"{failed}message-1, keys '42', try 17 of 17: becomes a dead letter",
        f"{dead}message-1 of topic 'Orders', keys '42', try 17 of 17; its handler raised ValueError('bad')",
        f"{dead}message-2 of topic 'Orders', keys '42', try 1 of 17; its handler raised DeadLetter('who?')",
        f"{dead}message-3 of topic 'Orders', keys '42', try 17 of 17; its handler raised {Retry()!r}",
    ]


async def test_nothing_is_a_dead_letter_before_a_broker_has_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(concurrent, "LOCAL_RETRY_S", 3_600.0)

    async def handle(_: StoredMessage) -> None:
        raise DeadLetter

    async with working(handle, Returned(failures=1)) as handling:
        handling.put(pulled(stored(0)), [stored(0)])
        await settled(lambda: "it is handled here again" in caplog.text)
    assert "a dead letter in topic" not in caplog.text


async def test_the_failure_of_a_message_whose_queue_has_another_owner_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    queue = pulled(stored(0))

    async def handle(_: StoredMessage) -> None:
        await queue.stop()
        raise ValueError("no")

    async with working(handle, Returned()) as handling:
        handling.put(queue, [stored(0)])
        await settled(lambda: "failed" in caplog.text)
    assert caplog.messages[0].endswith("try 1 of 17: delivered again to the queue's next owner")


@pytest.mark.parametrize("error", [ValueError("no"), DeadLetter("no"), Retry()])
async def test_what_broadcasting_drops_is_logged_once(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def handle(_: StoredMessage) -> None:
        raise error

    queue = pulled(stored(0))
    async with working(handle) as handling:
        handling.put(queue, [stored(0)])
        await settled(lambda: queue.to_commit == 1)
    (said,) = caplog.messages
    assert said.startswith(
        "dropped, as broadcasting has neither retries nor dead letters: message message-0 of"
    )


async def test_broadcasting_drops_what_fails() -> None:
    tried = asyncio.Event()

    async def handle(_: StoredMessage) -> None:
        tried.set()
        raise ValueError("no")

    queue = pulled(stored(0))
    async with working(handle) as handling:
        handling.put(queue, [stored(0)])
        await tried.wait()
    assert queue.to_commit == 1


async def test_batches_are_of_one_topic_and_a_topic_without_handler_fails() -> None:
    batches: asyncio.Queue[list[int]] = asyncio.Queue()

    async def handle(messages: list[StoredMessage]) -> None:
        batches.put_nowait([message.queue_offset for message in messages])

    messages = [stored(0), stored(1), stored(2), stored(3, "Others"), stored(4)]
    returned = Returned()
    queue = pulled(*messages)
    async with working(handle, returned, batch_size=2) as handling:
        handling.put(queue, messages)
        assert sorted([await batches.get() for _ in range(3)]) == [[0, 1], [2], [4]]
    assert returned.levels == {3: 0}


async def test_a_queue_that_was_given_up_is_not_handled() -> None:
    handled: asyncio.Queue[int] = asyncio.Queue()

    async def handle(message: StoredMessage) -> None:
        handled.put_nowait(message.queue_offset)

    gone, kept = pulled(stored(0)), pulled(stored(1))
    await gone.stop()
    async with working(handle, workers=1) as handling:
        handling.put(gone, [stored(0)])
        handling.put(kept, [stored(1)])
        assert await handled.get() == 1
    assert handled.empty()


async def test_a_handler_whose_own_work_is_cancelled_fails_and_the_worker_goes_on() -> None:
    handled: asyncio.Queue[int] = asyncio.Queue()

    async def handle(message: StoredMessage) -> None:
        if message.queue_offset == 0:
            raise asyncio.CancelledError
        handled.put_nowait(message.queue_offset)

    messages, returned = [stored(0), stored(1)], Returned()
    queue = pulled(*messages)
    async with working(handle, returned, workers=1) as handling:
        handling.put(queue, messages)
        async with asyncio.timeout(PATIENCE_S):
            assert await handled.get() == 1
    assert returned.levels == {0: 0}
    assert queue.to_commit == 2
