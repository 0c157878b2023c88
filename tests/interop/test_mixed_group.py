"""A Java consumer and one of ours in one group."""

import asyncio

import pytest
from tests.consuming import Basket, Shares
from tests.interop.jvm import Run
from tests.interop.peers import Peer

from cometmq import Consumer, Message, MessageQueue, Producer, Start
from cometmq.cluster.rebalance import averagely

pytestmark = pytest.mark.interop

QUEUES = 4
PATIENCE_S = 120
PROMPT = {"rocketmq.client.rebalance.waitInterval": "1000"}  # the client's default is 20 s


@pytest.mark.parametrize("way", ["concurrent", "ordered"])
def test_members_in_java_and_python_agree_on_who_has_which_queues(
    broker: Peer, way: str, run_java: Run
) -> None:
    topic = group = f"Mixed-{way}"

    async def main() -> None:
        basket, shares = Basket(), Shares()
        async with asyncio.timeout(PATIENCE_S), Producer(broker.namesrv) as producer:

            async def send(body: bytes, queue: MessageQueue) -> None:
                await producer.send(Message(topic, body), queue)

            await producer.send(Message(topic, b"first"))
            queues = sorted(await producer.queues(topic))
            consumer = Consumer(broker.namesrv, group, start=Start.FIRST, on_rebalance=shares.of("ours"))
            consumer.on(topic, ordered=way == "ordered")(basket.put)
            async with consumer, asyncio.TaskGroup() as tasks:  # a failure of Java's ends the test at once
                await basket.has(1)
                java = tasks.create_task(
                    asyncio.to_thread(
                        run_java, "Member", broker.namesrv, topic, group, QUEUES // 2, way, properties=PROMPT
                    )
                )
                await shares.are(ours=QUEUES // 2)
                ours = [queue for queue in consumer.queues if queue.topic == topic]
                for queue in queues:
                    for body in (b"1", b"2", b"3", b"end"):
                        await send(body, queue)
                (theirs,) = await java
                await basket.has(1 + 4 * len(ours))
                await shares.are(ours=QUEUES)  # it left
            print(f"\n{broker.name} {way}: {theirs}, ours {ours}")

            members = sorted([consumer.client_id, theirs["clientId"]])
            assert ours == averagely(consumer.client_id, queues, members)
            share = averagely(theirs["clientId"], queues, members)
            assert theirs["queues"] == [queue.queue_id for queue in share]
            assert sorted(theirs["bodies"]) == sorted(["1", "2", "3", "end"] * len(share))
            if way == "ordered":
                of_queue = [m.body for m in basket.messages if m.queue_id == ours[0].queue_id]
                assert of_queue[-4:] == [b"1", b"2", b"3", b"end"]

    asyncio.run(main())
