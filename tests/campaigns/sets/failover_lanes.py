"""A load of sends that knows afterwards what it was promised: one sender to each queue, one send at a time.

Each sends numbers in ascending order, and each number again until it is acknowledged. So a queue may hold
a number more than once, but the first of each must come in order, and none that was acknowledged may be
missing.
"""

import asyncio
import itertools
import time
from typing import NamedTuple

from cometmq.client import Producer, PullConsumer
from cometmq.client.producer.send_result import SendStatus
from cometmq.errors import CometMQError
from cometmq.message import Message, MessageQueue

TOPIC = "Failover"
PAUSE_S = 0.02
"""Between two tries of a number, so that a broker that is gone does not cost the processor."""
PACE_S = 0.005
"""After each acknowledgement: a slave comes into the set when it has all that the master has, which it never
has where sends follow each other without a break on a busy machine."""
BODY_SIZE = 300


class Verdict(NamedTuple):
    """What the load's queues hold in the end.

    Attributes:
        acknowledged: numbers that were acknowledged, of all queues.
        lost: those of them that are missing.
        disordered: queues in which the first of each number do not ascend.
        doubled: numbers that are there more than once, as a send had no answer.
    """

    acknowledged: int
    lost: int
    disordered: int
    doubled: int


class Lanes:
    """The senders.

    Attributes:
        acknowledged: how many numbers of each queue are acknowledged.
    """

    def __init__(self, name_server: str, broker_name: str, count: int) -> None:
        self.queues = [MessageQueue(TOPIC, broker_name, number) for number in range(count)]
        self.acknowledged = [0] * count
        self._name_server = name_server
        self._acknowledged = asyncio.Event()
        self._begun_last_s = 0.0  # when the send began that was acknowledged last

    async def run(self) -> None:
        """Send until cancelled."""
        async with (
            Producer(self._name_server, tries=2, timeout_ms=2_000) as producer,
            asyncio.TaskGroup() as group,
        ):
            for lane in range(len(self.queues)):
                group.create_task(self._send(producer, lane))

    async def acknowledgement_begun_after(self, time_s: float) -> float:
        """Wait for the acknowledgement of a send that began after a time; return when it came."""
        while self._begun_last_s < time_s:
            self._acknowledged.clear()
            await self._acknowledged.wait()
        return time.monotonic()

    async def judge(self) -> Verdict:
        """Read all queues, and compare them with what was acknowledged. No sender may run."""
        lost = disordered = doubled = 0
        async with PullConsumer(self._name_server, "judge") as consumer:
            for queue, count in zip(self.queues, self.acknowledged, strict=True):
                numbers = [int(message.body.split()[0]) async for message in consumer.messages(queue, 0)]
                firsts = list(dict.fromkeys(numbers))
                lost += len(set(range(count)) - set(firsts))
                disordered += firsts != sorted(firsts)
                doubled += len(numbers) - len(firsts)
        return Verdict(sum(self.acknowledged), lost, disordered, doubled)

    async def _send(self, producer: Producer, lane: int) -> None:
        for number in itertools.count():
            message = Message(TOPIC, b"%d %d " % (number, lane) + bytes(BODY_SIZE))
            while not await self._is_acknowledged(producer, message, lane):  # noqa: ASYNC110  it tries again
                await asyncio.sleep(PAUSE_S)
            await asyncio.sleep(PACE_S)

    async def _is_acknowledged(self, producer: Producer, message: Message, lane: int) -> bool:
        begun_s = time.monotonic()
        try:
            result = await producer.send(message, self.queues[lane])
        except CometMQError:
            return False
        if result.status is not SendStatus.SEND_OK:
            return False
        self.acknowledged[lane] += 1
        self._begun_last_s = max(self._begun_last_s, begun_s)
        self._acknowledged.set()
        return True
