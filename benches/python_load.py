"""A load generator on the Python clients: takes the orders of ``java/Load.java``, for sync, async and batch.

And one more, linger: single sends that share batches.

It is a process of its own, started by ``bench_clients``: an order is a line of JSON, and so is its answer.
"""

import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, Final

from cometmq import Message, Producer, blocking

WINDOW: Final = 512
"""How many async sends are unanswered at a time, as in ``java/Sends.java``."""
BATCH: Final = 32
LINGER_MS: Final = 10
LINGER_WINDOW: Final = 4_096
"""How many lingering sends are unanswered: 32 to each of 128 topics."""
RAMP_S: Final = 0.5
Order = dict[str, Any]


class Meter:
    """Counts messages, their time and this process's CPU time, from the end of the ramp on."""

    def __init__(self, order: Order) -> None:
        self._body = bytes(97 + place % 26 for place in range(order["bodySize"]))
        self._topics = [f"bench-{number}" for number in range(order["topics"])]
        self._sent = 0
        self._begin = time.perf_counter() + RAMP_S
        self._end = self._begin + order["seconds"]
        self._counted = 0
        self._cpu_s = 0.0
        self._is_counting = False

    def next(self) -> Message:
        """Make a message."""
        self._sent += 1
        return Message(self._topics[self._sent % len(self._topics)], self._body)

    def goes_on(self, count: int) -> bool:
        """Count messages that were answered; tell whether to go on."""
        now = time.perf_counter()
        if now >= self._end:
            if self._is_counting:
                self._is_counting = False
                self._cpu_s = time.process_time() - self._cpu_s
                self._end = now
            return False
        if self._is_counting:
            self._counted += count
        elif now >= self._begin:
            self._is_counting = True
            self._begin = now
            self._cpu_s = time.process_time()
        return True

    def result(self) -> dict[str, float]:
        """Say what ``java/Window.java`` says of rate and cost."""
        count = max(1, self._counted)
        seconds = self._end - self._begin
        return {"perSecond": count / seconds, "clientCpuMicros": self._cpu_s / count * 1e6, "failed": 0}


def sync(order: Order) -> dict[str, float]:
    """Send from threads that wait for each answer."""
    meter = Meter(order)
    with blocking.Producer(order["namesrv"], "load") as producer:

        def work() -> None:
            count = 0
            while meter.goes_on(count):
                producer.send(meter.next())
                count = 1

        threads = [threading.Thread(target=work) for _ in range(order["threads"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return meter.result()


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
            await producer.send(meter.next())
            count = 1

    async with Producer(order["namesrv"], "load", **settings) as producer:
        await asyncio.gather(*(work(producer) for _ in range(tasks)))
    return meter.result()


async def batches(order: Order) -> dict[str, float]:
    """Send batches of one topic from tasks, each with one under way."""
    meter = Meter(order)

    async def work(producer: Producer) -> None:
        count = 0
        while meter.goes_on(count):
            first = meter.next()
            await producer.send_many([Message(first.topic, first.body) for _ in range(BATCH)])
            count = BATCH

    async with Producer(order["namesrv"], "load") as producer:
        await asyncio.gather(*(work(producer) for _ in range(order["threads"])))
    return meter.result()


MODES: Final[dict[str, Callable[[Order], dict[str, float] | Coroutine[Any, Any, dict[str, float]]]]] = {
    "sync": sync,
    "async": asynchronous,
    "batch": batches,
    "linger": lingering,
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
