"""A load generator on the Python clients: takes the orders of ``java/Load.java`` to send and to push.

And two more: linger, single sends that share batches; and many, batches with a result for each message.

It is a process of its own, started by ``bench_clients``: an order is a line of JSON, and so is its answer.
"""

import asyncio
import json
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from benches.meter import Meter, Order

from cometmq import Message, Producer, Start, StoredMessage, blocking

WINDOW: Final = 512
"""How many async sends are unanswered at a time, as in ``java/Sends.java``."""
BATCH: Final = 32
LINGER_MS: Final = 10
LINGER_WINDOW: Final = 4_096
"""How many lingering sends are unanswered: 32 to each of 128 topics."""
LOOK_EVERY_S: Final = 0.02


def sync(order: Order) -> dict[str, float]:
    """Send from threads that wait for each answer."""
    meter = Meter(order)
    with blocking.Producer(order["namesrv"], "load") as producer:

        def work() -> None:
            count = 0
            while meter.goes_on(count):
                producer.send(Message(meter.next_topic(), meter.body))
                count = 1

        return meter.run(work, order["threads"])


async def asynchronous(order: Order) -> dict[str, float]:
    """Send from tasks, each with one message under way."""
    return await _singly(order, WINDOW)


async def lingering(order: Order) -> dict[str, float]:
    """Send from many tasks, each with one message under way that waits for company."""
    return await _singly(order, LINGER_WINDOW, linger_ms=LINGER_MS)


async def _singly(order: Order, tasks: int, **settings: Any) -> dict[str, float]:
    meter = Meter(order)

    async def work(producer: Producer) -> None:
        count = 0
        while meter.goes_on(count):
            await producer.send(Message(meter.next_topic(), meter.body))
            count = 1

    async with Producer(order["namesrv"], "load", **settings) as producer:
        await asyncio.gather(*(work(producer) for _ in range(tasks)))
    return meter.result()


async def batches(order: Order) -> dict[str, float]:
    """Send batches of one topic as Java does, from tasks, each with one under way."""
    return await _together(order, Producer.send_batch)


async def many(order: Order) -> dict[str, float]:
    """Send the same without a word about batches."""
    return await _together(order, Producer.send_many)


async def _together(
    order: Order, send: Callable[[Producer, list[Message]], Coroutine[Any, Any, object]]
) -> dict[str, float]:
    meter = Meter(order)

    async def work(producer: Producer) -> None:
        count = 0
        while meter.goes_on(count):
            topic = meter.next_topic()
            await send(producer, [Message(topic, meter.body) for _ in range(BATCH)])
            count = BATCH

    async with Producer(order["namesrv"], "load") as producer:
        await asyncio.gather(*(work(producer) for _ in range(order["threads"])))
    return meter.result()


def push(order: Order) -> dict[str, float]:
    """Consume as the only member of a new group, from the first messages on, at most 32 at a time."""
    meter = Meter(order)
    consumer = blocking.Consumer(order["namesrv"], f"consume-{time.monotonic_ns()}", start=Start.FIRST)

    async def handle(messages: list[StoredMessage]) -> None:
        meter.goes_on(len(messages))

    for topic in meter.topics:
        consumer.subscribe(topic, handle, batch_size=BATCH)
    with consumer:
        while not meter.is_over:
            time.sleep(LOOK_EVERY_S)
    return meter.result()


MODES: Final[dict[str, Callable[[Order], dict[str, float] | Coroutine[Any, Any, dict[str, float]]]]] = {
    "sync": sync,
    "async": asynchronous,
    "batch": batches,
    "many": many,
    "linger": lingering,
    "push": push,
}


def main() -> None:
    """Answer orders until there are no more."""
    for line in sys.stdin:
        order = json.loads(line)
        result = MODES[order["mode"]](order)
        answer = asyncio.run(result) if isinstance(result, Coroutine) else result
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
