"""What clients do with a broker of whatever make: ``tests/interop`` runs these against a Java one, too."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from cometmq import Lookup, Message, MessageQueue, Producer, PullConsumer, SendResult, StoredMessage
from cometmq.errors import NoRoute, PartlySent
from cometmq.wire.bodies.trace import TRACE_TOPIC
from cometmq.wire.bodies.trace import decode as decode_traces

PATIENCE_MS = 15_000


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


async def read(name_server: str, topic: str, count: int) -> list[StoredMessage]:
    """Read a topic's first messages, queue by queue; wait for those that are not there yet."""
    async with PullConsumer(name_server, "readers") as consumer:
        queues = await queues_of(consumer, topic)
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


async def queues_of(consumer: PullConsumer, topic: str) -> list[MessageQueue]:
    """Wait until the name server has heard of a topic that a send has made."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            try:
                return await consumer.queues(topic)
            except NoRoute:
                await asyncio.sleep(0.05)


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


def test_many_messages_of_many_topics_arrive_each_once(name_server: str, topic: str) -> None:
    async def main() -> None:
        topics = [f"{topic}_{number}" for number in range(3)]
        messages = [Message(topics[n % 3], b"%d" % n, keys=(f"k{n}",)) for n in range(600)]
        messages.append(Message(topics[0], b"late", delay_level=1))
        async with Producer(name_server) as producer:
            for name in topics:
                await producer.send(Message(name, b"first"))
            results = await producer.send_many(messages)
            assert await producer.send_many([]) == []
        ids = {result.message_id: message for result, message in zip(results, messages, strict=True)}
        assert len(ids) == len(messages)
        for number, name in enumerate(topics):
            found = await read(name_server, name, 201 + (number == 0))
            assert {m.body for m in found} == {b"first"} | {m.body for m in messages if m.topic == name}
            for message in found:
                if message.body not in {b"first", b"late"}:
                    result = results[int(message.body)]
                    assert ids[message.message_id].body == message.body
                    assert result.queue == MessageQueue(name, result.queue.broker_name, message.queue_id)
                    assert result.queue_offset == message.queue_offset
                    assert result.offset_ids == [message.offset_id]

    run(main())


def test_messages_that_are_too_much_for_one_batch_are_split_and_stay_in_order(
    name_server: str, topic: str
) -> None:
    async def main() -> None:
        messages = [Message(topic, b"%04d" % n * 20_000, sharding_key=f"k{n % 2}") for n in range(80)]
        async with Producer(name_server) as producer:
            await producer.send(Message(topic, b"first"))
            results = await producer.send_many(messages)
        for key in range(2):
            places = [(result.queue, result.queue_offset) for result in results[key::2]]
            assert places == sorted(places)

    run(main())


def test_what_a_broker_refuses_is_told_for_each_message(name_server: str, topic: str) -> None:
    async def main() -> None:
        async with Producer(name_server, tries=1) as producer:
            good, bad = Message(topic, b"x"), Message("SCHEDULE_TOPIC_XXXX", b"x")
            with pytest.raises(PartlySent, match="2 of 3 messages failed, the first with: ") as error:
                await producer.send_many([bad, good, bad])
        assert [isinstance(outcome, SendResult) for outcome in error.value.outcomes] == [False, True, False]

    run(main())


def test_traces_tell_of_messages_in_rocketmqs_own_format(name_server: str, topic: str) -> None:
    async def main() -> None:
        async with Producer(name_server, trace=True) as producer:
            result = await producer.send(Message(topic, b"paid", tags="TagA", keys=("k1",)))
        async with PullConsumer(name_server, "readers") as consumer, Lookup(name_server) as lookup:
            await queues_of(consumer, TRACE_TOPIC)
            (found,) = await lookup.by_key(TRACE_TOPIC, result.message_id)
        (trace,) = decode_traces(found.body)
        assert (trace.topic, trace.tags, trace.keys, trace.success) == (topic, "TagA", "k1", True)
        assert (trace.message_id, [trace.offset_id]) == (result.message_id, result.offset_ids)

    run(main())
