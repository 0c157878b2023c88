"""What waits on a broker of whatever make."""

import time

from tests.shop import shop_at

from cometmq.admin.cluster import ClusterAdmin
from cometmq.admin.waiting import waiting
from cometmq.client import SimpleConsumer, Start, TransactionProducer, TransactionState
from cometmq.cluster.waiting import WaitingKind, WaitingLine
from cometmq.message import Message, StoredMessage

HOUR_MS = 3_600_000
SECOND_MS = 1_000


async def test_timed_popped_and_half_messages_are_found(name_server: str, topic: str) -> None:
    states = iter((TransactionState.COMMIT, TransactionState.UNKNOWN))

    async def execute(_: Message) -> TransactionState:
        return next(states)

    async def check(_: StoredMessage) -> TransactionState:
        return TransactionState.UNKNOWN

    async with (
        shop_at(name_server, topic) as here,
        ClusterAdmin(name_server) as cluster,
        SimpleConsumer(name_server, here.group_name, start=Start.FIRST) as consumer,
        TransactionProducer(name_server, f"{topic}-senders", check=check) as producer,
    ):

        async def found(kind: WaitingKind) -> list[WaitingLine]:
            now_ms = int(time.time() * 1000)
            return (await waiting(cluster, now_ms=now_ms, topic=topic, kinds=[kind])).lines

        before_ms = int(time.time() * 1000)
        await here.producer.send(Message(topic, b"timed", delay_ms=HOUR_MS))
        after_ms = int(time.time() * 1000)
        (timed,) = await found(WaitingKind.TIMED)
        assert (timed.topic, timed.message_count, timed.due["1h"] + timed.due["1d"]) == (topic, 1, 1)
        assert before_ms - SECOND_MS < timed.first_due_ms - HOUR_MS <= after_ms

        await here.send(b"0", b"1", b"2")
        await consumer.subscribe(topic)
        held: list[StoredMessage] = []
        while len(held) < 3:
            held += await consumer.receive(invisible_ms=300_000)
        await consumer.ack(held[1])
        (popped,) = await found(WaitingKind.POPPED)
        assert (popped.group, popped.message_count, popped.due["10m"]) == (here.group_name, 2, 2)
        await consumer.ack(held[0])
        await consumer.ack(held[2])
        assert await found(WaitingKind.POPPED) == []

        for _ in range(2):
            await producer.send_in_transaction(Message(topic, b"half"), execute)
        while len(halves := await found(WaitingKind.HALF)) != 1 or halves[0].message_count != 1:
            continue  # a Java broker records the other one as ended within three seconds
        assert (halves[0].topic, halves[0].group) == (topic, f"{topic}-senders")
