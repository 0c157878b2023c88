"""The handling of one ordered queue; its way through a broker is in ``test_group_end_to_end``."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
from tests.client.members import settled
from tests.pulled import pulled, stored

from cometmq.client.handling.failure_log import FailureLog
from cometmq.client.handling.ordered import OrderedHandling
from cometmq.client.handling.outcome import DeadLetter, PutOff, Retry
from cometmq.client.handling.pulling import Pulling
from cometmq.client.handling.send_back import SendBack
from cometmq.client.handling.subscription import Handler, Subscription
from cometmq.cluster.process_queue import PulledItem
from cometmq.errors import UndecodableBody
from cometmq.message import StoredMessage


class Dead(SendBack):
    """Receives dead letters."""

    def __init__(self) -> None:
        self.offsets: list[int] = []

    async def send_whole(self, message: StoredMessage, delay_level: int = 0) -> None:
        del delay_level
        self.offsets.append(message.queue_offset)


def handling_of(
    queue: Pulling,
    handler: Handler,
    *,
    dead: SendBack | None = None,
    max_reconsume_times: int | None = None,
    holds: bool = True,
    batch_size: int | None = None,
) -> OrderedHandling:
    find = {"Orders": Subscription("Orders", handler, ordered=True, batch_size=batch_size)}.get
    pool = ThreadPoolExecutor(1)
    one = asyncio.Semaphore(1)
    return OrderedHandling(
        queue,
        find,
        lambda: holds,
        one,
        partial(Subscription.handle, pool=pool),
        dead,
        0,
        FailureLog("billing", max_reconsume_times),
    )


async def end(handling: OrderedHandling) -> None:
    handling.request_stop()
    assert await handling.finish()


async def test_messages_come_in_their_order_in_batches() -> None:
    batches: asyncio.Queue[list[int]] = asyncio.Queue()

    async def handle(messages: list[StoredMessage]) -> None:
        batches.put_nowait([message.queue_offset for message in messages])

    queue = pulled(*map(stored, range(5)))
    handling = handling_of(queue, handle, batch_size=2)
    assert [await batches.get() for _ in range(3)] == [[0, 1], [2, 3], [4]]
    await end(handling)
    assert queue.to_commit == 5


async def test_a_body_that_cannot_be_decompressed_fails_alone_and_not_the_batch_it_is_in() -> None:
    batches: asyncio.Queue[list[int]] = asyncio.Queue()

    async def handle(messages: list[StoredMessage]) -> None:
        for message in messages:
            if message.queue_offset == 1:
                raise UndecodableBody(message, "no zlib")
        batches.put_nowait([message.queue_offset for message in messages])

    dead, queue = Dead(), pulled(*map(stored, range(5)))
    handling = handling_of(queue, handle, dead=dead, max_reconsume_times=2, batch_size=3)
    assert [await batches.get() for _ in range(2)] == [[0], [2, 3, 4]]
    await end(handling)
    assert (dead.offsets, queue.to_commit) == ([1], 5)


async def test_nothing_is_handled_while_somebody_else_may_hold_the_lock() -> None:
    handled: list[StoredMessage] = []
    queue = pulled(stored(0))
    handling = handling_of(queue, handled.append, holds=False)
    await end(handling)
    assert (handled, queue.to_commit) == ([], 0)


async def test_a_failure_pauses_the_queue_as_long_as_the_handler_wants() -> None:
    failed = asyncio.Event()

    async def handle(_: StoredMessage) -> None:
        failed.set()
        raise Retry(suspend_ms=3_600_000)

    queue = pulled(stored(0), stored(1))
    handling = handling_of(queue, handle)
    await failed.wait()
    await end(handling)  # a pause ends with the queue
    assert queue.to_commit == 0


async def test_a_message_that_is_put_off_keeps_its_place_and_does_not_count_as_tried() -> None:
    tries: list[int] = []
    handled = asyncio.Event()

    async def handle(message: StoredMessage) -> None:
        tries.append(message.reconsume_times)
        if len(tries) < 4:
            raise PutOff(suspend_ms=3_600_000)
        handled.set()

    dead, queue = Dead(), pulled(stored(0))
    handling = handling_of(queue, handle, dead=dead, max_reconsume_times=1)
    await handled.wait()
    await end(handling)
    assert (tries, dead.offsets, queue.to_commit) == ([0] * 4, [], 1)


async def test_dead_letters_leave_the_queue() -> None:
    last = asyncio.Event()

    async def handle(message: StoredMessage) -> None:
        if message.queue_offset == 0:
            raise DeadLetter
        if message.queue_offset == 1:
            raise ValueError("no")
        last.set()

    dead, queue = Dead(), pulled(*map(stored, range(3)))
    handling = handling_of(queue, handle, dead=dead, max_reconsume_times=2)
    await last.wait()
    await end(handling)
    assert (dead.offsets, queue.to_commit) == ([0, 1], 3)


async def test_messages_that_come_behind_a_failure_are_no_dead_letters_before_they_were_tried() -> None:
    batches: list[list[tuple[int, int]]] = []
    last = asyncio.Event()

    async def handle(messages: list[StoredMessage]) -> None:
        batches.append([(message.queue_offset, message.reconsume_times) for message in messages])
        if messages[0].queue_offset == 0:
            if len(batches) == 1:
                assert queue.waiting is not None
                queue.waiting.put([PulledItem(1, 1, stored(1))], 2)
            raise ValueError("no")
        last.set()

    dead, queue = Dead(), pulled(stored(0))
    handling = handling_of(queue, handle, dead=dead, max_reconsume_times=2, batch_size=10)
    await last.wait()
    await end(handling)
    assert batches == [[(0, 0)], [(0, 1)], [(0, 2)], [(1, 0)]]
    assert (dead.offsets, queue.to_commit) == ([0], 2)


async def test_the_failures_of_a_message_do_not_count_for_one_to_which_the_offset_is_reset() -> None:
    tries: list[tuple[int, int]] = []
    last = asyncio.Event()

    async def handle(message: StoredMessage) -> None:
        tries.append((message.queue_offset, message.reconsume_times))
        if message.queue_offset == 1:
            queue.restart(0)
            assert queue.waiting is not None
            queue.waiting.put([PulledItem(0, 1, stored(0))], 1)
            raise ValueError("no")
        last.set()

    queue = pulled(stored(1))
    handling = handling_of(queue, handle)
    await last.wait()
    await end(handling)
    assert tries == [(1, 0), (0, 0)]


async def test_the_end_waits_for_the_message_that_is_being_handled() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def handle(_: StoredMessage) -> None:
        begun.set()
        await may_end.wait()

    queue = pulled(stored(0), stored(1))
    handling = handling_of(queue, handle)
    await begun.wait()
    handling.request_stop()
    ending = asyncio.create_task(handling.finish())
    await asyncio.sleep(0)
    may_end.set()
    assert await ending
    assert queue.to_commit == 1


async def test_a_message_that_does_not_end_is_cancelled_when_the_time_is_up() -> None:
    begun = asyncio.Event()

    async def handle(_: StoredMessage) -> None:
        begun.set()
        await asyncio.Event().wait()

    queue = pulled(stored(0))
    handling = handling_of(queue, handle)
    await begun.wait()
    handling.request_stop()
    assert not await handling.finish(0.01)
    assert queue.to_commit == 0


async def test_a_failure_is_logged_with_what_becomes_of_the_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    raised: list[Exception] = [ValueError("no"), ValueError("for ever"), DeadLetter("who?")]

    async def handle(_: StoredMessage) -> None:
        if raised:
            raise raised.pop(0)

    queue = pulled(*map(stored, range(3)))
    handling = handling_of(queue, handle, dead=Dead(), max_reconsume_times=1)
    await settled(lambda: queue.to_commit == 3)
    await end(handling)
    failed = "a handler of topic 'Orders', group 'billing' failed: message message-0, "
    dead = "a dead letter in topic %DLQ%billing: message "
    assert caplog.messages == [
        f"{failed}try 1 of 2: delivered again in about 0 s, broker-a, queue 0 pauses until then",
        f"{failed}try 2 of 2: becomes a dead letter",
        f"{dead}message-0 of topic 'Orders', try 2 of 2; its handler raised ValueError('for ever')",
        f"{dead}message-1 of topic 'Orders', try 1 of 2; its handler raised DeadLetter('who?')",
    ]


async def test_what_broadcasting_drops_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def handle(_: StoredMessage) -> None:
        raise DeadLetter("who?")

    queue = pulled(stored(0))
    handling = handling_of(queue, handle)
    await settled(lambda: queue.to_commit == 1)
    await end(handling)
    (said,) = caplog.messages
    assert said.startswith(
        "dropped, as broadcasting has neither retries nor dead letters: message message-0 of"
    )
