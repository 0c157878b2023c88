import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from tests.pulled import pulled, stored

from cometmq.client.handling.consumed_queue import ConsumedQueue
from cometmq.client.handling.failure_log import FailureLog
from cometmq.client.handling.ordered import SUSPEND_MS, OrderedHandling
from cometmq.client.handling.pulling import Pulling
from cometmq.client.handling.subscription import Subscription
from cometmq.message import StoredMessage


async def test_a_shared_queue_has_no_handling_of_its_own() -> None:
    queue = ConsumedQueue(pulled(stored(0)))
    queue.request_stop()
    assert await queue.finish()
    await queue.stop()
    assert queue.pulling.stopped
    assert queue.to_commit == 0
    queue.committed(0)
    assert queue.to_commit is None


async def test_an_ordered_queue_is_handled_by_itself_and_stops_when_its_message_is_done() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def handle(_: StoredMessage) -> None:
        begun.set()
        await may_end.wait()

    def handle_in_order(pulling: Pulling) -> OrderedHandling:
        find = {"Orders": Subscription("Orders", handle, ordered=True)}.get
        one, pool = asyncio.Semaphore(1), ThreadPoolExecutor(1)
        return OrderedHandling(
            pulling,
            find,
            lambda: True,
            one,
            partial(Subscription.handle, pool=pool),
            None,
            SUSPEND_MS,
            FailureLog("readers", None),
        )

    queue = ConsumedQueue(pulled(stored(0), stored(1)), handle_in_order)
    queue.begin(settle_s=3_600.0)
    queue.arrived([])
    await begun.wait()
    stopping = asyncio.create_task(queue.stop())
    await asyncio.sleep(0)
    assert not stopping.done()
    may_end.set()
    await stopping
    assert queue.to_commit == 1
