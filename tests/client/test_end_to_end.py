"""What clients do with a broker of whatever make: ``tests/interop`` runs these against a Java one, too."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from cometmq import Message, MessageQueue, Producer, PullConsumer, StoredMessage

PATIENCE_MS = 15_000


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


async def read(name_server: str, topic: str, count: int) -> list[StoredMessage]:
    """Read a topic's first messages, queue by queue; wait for those that are not there yet."""
    async with PullConsumer(name_server, "readers") as consumer:
        queues = await consumer.queues(topic)
        found: dict[MessageQueue, list[StoredMessage]] = {queue: [] for queue in queues}
        enough = asyncio.Event()

        async def read_queue(queue: MessageQueue) -> None:
            offset = 0
            while True:
                pulled = await consumer.pull(queue, offset, wait_ms=PATIENCE_MS)
                offset = pulled.next_offset
                found[queue] += pulled.messages
                if sum(map(len, found.values())) >= count:
                    enough.set()

        reading = [asyncio.create_task(read_queue(queue)) for queue in queues]
        try:
            async with asyncio.timeout(PATIENCE_MS / 1000):
                await enough.wait()
        finally:
            for task in reading:
                task.cancel()
            await asyncio.gather(*reading, return_exceptions=True)
        return [message for queue in queues for message in found[queue]]


def test_a_message_arrives_whole(name_server: str, topic: str) -> None:
    async def main() -> None:
        sent = Message(topic, b"paid" * 2_000, "TagA", ("k1", "k2"), {"color": "red"}, flag=5)
        async with Producer(name_server, "makers") as producer:
            result = await producer.send(sent)
        (message,) = await read(name_server, topic, 1)
        assert (message.body, message.tags, message.keys, message.flag) == (
            sent.body,
            "TagA",
            ("k1", "k2"),
            5,
        )
        assert message.properties["color"] == "red"
        assert (message.message_id, [message.offset_id]) == (result.message_id, result.offset_ids)

    run(main())


def test_messages_with_a_sharding_key_keep_their_order(name_server: str, topic: str) -> None:
    async def main() -> None:
        async with Producer(name_server) as producer:
            for number in range(20):
                key = f"customer-{number % 3}"
                await producer.send(Message(topic, b"%d" % number, sharding_key=key))
        messages = await read(name_server, topic, 20)
        for customer in range(3):
            of_key = [m for m in messages if m.properties["__SHARDINGKEY"] == f"customer-{customer}"]
            assert [message.body for message in of_key] == [b"%d" % n for n in range(customer, 20, 3)]
            assert len({message.queue_id for message in of_key}) == 1

    run(main())


def test_a_delayed_message_comes_later(name_server: str, topic: str) -> None:
    async def main() -> None:
        async with Producer(name_server) as producer:
            await producer.send(Message(topic, b"late", delay_level=1))
            await producer.send(Message(topic, b"at once"))
        by_body = {message.body: message for message in await read(name_server, topic, 2)}
        assert by_body[b"late"].store_time > by_body[b"at once"].store_time
        assert by_body[b"late"].store_time - by_body[b"late"].born_time >= 1_000

    run(main())
