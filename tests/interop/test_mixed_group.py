"""A Java consumer and one of ours in one group."""

import asyncio
from collections.abc import Sequence
from itertools import count

import pytest
from tests.consuming import Basket, Shares
from tests.interop.jvm import Run
from tests.interop.patience import PATIENCE_S
from tests.interop.peers import Peer

from cometmq import Consumer, Message, MessageQueue, Producer, PullConsumer, Start
from cometmq.cluster.rebalance import ConsistentHash, Strategy, averagely, by_circle

pytestmark = pytest.mark.interop

QUEUES = 4
STRATEGIES: dict[str, Strategy] = {
    "averagely": averagely,
    "by_circle": by_circle,
    "consistent_hash": ConsistentHash(),
}


@pytest.mark.parametrize(
    ("way", "named"), [("concurrent", "averagely"), ("ordered", "by_circle"), ("ordered", "consistent_hash")]
)
def test_members_in_java_and_python_agree_on_who_has_which_queues(
    broker: Peer, way: str, named: str, run_java: Run
) -> None:
    topic = group = f"Mixed-{way}-{named}"
    strategy = STRATEGIES[named]

    async def main() -> None:
        basket, shares = Basket(), Shares()
        async with asyncio.timeout(PATIENCE_S), Producer(broker.namesrv) as producer:

            async def send(body: bytes, queue: MessageQueue) -> None:
                await producer.send(Message(topic, body), queue)

            first = await producer.send(Message(topic, b"first"))
            queues = sorted(await producer.queues(topic))
            consumer = Consumer(
                broker.namesrv, group, start=Start.FIRST, strategy=strategy, on_rebalance=shares.of("ours")
            )
            other, share = other_member(consumer.client_id, queues, strategy)
            arguments = (broker.namesrv, topic, group, len(share), way, named, other)
            consumer.on(topic, ordered=way == "ordered")(basket.put)
            async with consumer, asyncio.TaskGroup() as tasks:  # a failure of Java's ends the test at once
                await basket.has(1)
                if way == "concurrent":  # without locks the next owner may begin before the last commit
                    await committed(broker, group, first.queue, first.queue_offset + 1)
                java = tasks.create_task(asyncio.to_thread(run_java, "Member", *arguments))
                await shares.are(ours=QUEUES - len(share))
                ours = [queue for queue in consumer.queues if queue.topic == topic]
                for queue in queues:
                    for body in (b"1", b"2", b"3", b"end"):
                        await send(body, queue)
                (theirs,) = await java
                await basket.has(1 + 4 * len(ours))
                await shares.are(ours=QUEUES)  # it left
            print(f"\n{broker.name} {way} {named}: {theirs}, ours {ours}")

            assert theirs["clientId"] == other
            assert ours == [queue for queue in queues if queue not in share]
            assert theirs["queues"] == [queue.queue_id for queue in share]
            assert sorted(theirs["bodies"]) == sorted(["1", "2", "3", "end"] * len(share))
            if way == "ordered":
                of_queue = [m.body for m in basket.messages if m.queue_id == ours[0].queue_id]
                assert of_queue[-4:] == [b"1", b"2", b"3", b"end"]

    asyncio.run(main())


async def committed(broker: Peer, group: str, queue: MessageQueue, queue_offset: int) -> None:
    """Wait until a group has committed an offset."""
    async with PullConsumer(broker.namesrv, group) as reader:
        while True:
            if await reader.committed(queue) == queue_offset:
                return
            await asyncio.sleep(0.05)


def other_member(
    own_id: str, queues: Sequence[MessageQueue], strategy: Strategy
) -> tuple[str, list[MessageQueue]]:
    """Return a name for another member with which both have some of the queues, and its share."""
    for number in count():
        name = f"99.0.0.1@java-{number}"
        share = strategy(name, queues, sorted([own_id, name]))
        if 0 < len(share) < len(queues):
            return name, share
    raise AssertionError("names do not end")
