"""What producers do with a broker of whatever make: ``tests/interop`` runs these against a Java one, too.

Idempotence keys are not among it: only a broker of ours knows them (``test_idempotence_key``).
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Literal

import pytest

from cometmq import (
    Lookup,
    Message,
    MessageQueue,
    Producer,
    PullConsumer,
    SendResult,
    SendStatus,
    StoredMessage,
)
from cometmq.admin.topics import TopicAdmin
from cometmq.errors import NetworkError, NoRoute, PartlySent, RemoteError
from cometmq.format.sys_flag import COMPRESSION_MASK
from cometmq.wire.bodies.trace import TRACE_TOPIC, PubTrace
from cometmq.wire.bodies.trace import decode as decode_traces
from cometmq.wire.codes import ResponseCode

PATIENCE_MS = 60_000


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


async def found_by(ask: Callable[[], Coroutine[Any, Any, list[StoredMessage]]]) -> list[StoredMessage]:
    """Look for messages until there are some: a Java broker answers a send before they are in its index."""
    async with asyncio.timeout(PATIENCE_MS / 1000):
        while True:
            if found := await ask():
                return found
            await asyncio.sleep(0.02)


async def test_a_message_arrives_whole(name_server: str, topic: str) -> None:
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
    assert (message.message_id, message.offset_id) == (result.message_id, result.offset_id)
    assert (result.status, result.queue_offset) == (SendStatus.SEND_OK, message.queue_offset)
    assert result.queue._replace(broker_name="") == (topic, "", message.queue_id)
    assert message.store_time - 60_000 < message.born_time < message.store_time + 60_000


async def test_messages_with_a_sharding_key_keep_their_order(name_server: str, topic: str) -> None:
    async with Producer(name_server) as producer:
        for number in range(20):
            key = f"customer-{number % 3}"
            await producer.send(Message(topic, b"%d" % number, sharding_key=key))
    messages = await read(name_server, topic, 20)
    for customer in range(3):
        of_key = [m for m in messages if m.properties["__SHARDINGKEY"] == f"customer-{customer}"]
        assert [message.body for message in of_key] == [b"%d" % n for n in range(customer, 20, 3)]
        assert len({message.queue_id for message in of_key}) == 1


async def test_a_delayed_message_comes_later(name_server: str, topic: str) -> None:
    async with Producer(name_server) as producer:
        await producer.send(Message(topic, b"late", delay_level=1))
        await producer.send(Message(topic, b"at once"))
    by_body = {message.body: message for message in await read(name_server, topic, 2)}
    assert by_body[b"late"].store_time - by_body[b"late"].born_time >= 1_000


async def test_a_timed_message_comes_in_its_second_or_the_one_before(name_server: str, topic: str) -> None:
    async with Producer(name_server) as producer:
        due = int(time.time() * 1000) + 2_500
        results = [
            await producer.send(Message(topic, b"at", deliver_time=due)),
            await producer.send(Message(topic, b"after", delay_ms=2_500)),
            await producer.send(Message(topic, b"passed", deliver_time=1)),
            await producer.send(Message(topic, b"at once")),
        ]
    assert [result.status for result in results] == [SendStatus.SEND_OK] * 4
    came = {message.body: message for message in await read(name_server, topic, 4)}
    assert came[b"passed"].store_time <= came[b"at once"].store_time
    for body in (b"at", b"after"):
        assert due - 1_000 <= came[body].store_time
        assert came[body].message_id in {result.message_id for result in results}


@pytest.mark.timeout(600)
async def test_what_is_taken_back_does_not_come(name_server: str, topic: str) -> None:
    """Recall it before it is due: the slower the machine, the later that must be."""
    async with Producer(name_server) as producer:
        for factor in (1, 4, 16):
            topic = f"{topic}{factor}"
            due = int(time.time() * 1000) + 3_000 * factor
            first, _, third = await producer.send_many(
                [Message(topic, b"%d" % number, deliver_time=due) for number in range(3)]
            )
            taken = await asyncio.gather(
                *(producer.recall(topic, one.recall_handle) for one in (first, third, third)),
                return_exceptions=True,
            )
            if int(time.time() * 1000) < due - 1_000:
                break
        assert taken == [first.message_id, third.message_id, third.message_id]
        await producer.send(Message(topic, b"behind", deliver_time=due + 1_000))
        at_once = await producer.send(Message(topic, b"at once"))
        assert at_once.recall_handle is None
        assert {message.body for message in await read(name_server, topic, 3)} == {
            b"1",
            b"at once",
            b"behind",
        }
        with pytest.raises(RemoteError, match=rf"message {first.message_id} .*until it is due") as raised:
            await producer.recall(topic, first.recall_handle)
        assert raised.value.code == ResponseCode.ILLEGAL_OPERATION


async def test_a_time_that_is_too_far_off_is_refused(name_server: str, topic: str) -> None:
    async with Producer(name_server) as producer:
        with pytest.raises(RemoteError, match=r"timerMaxDelaySec|max delay"):
            await producer.send(Message(topic, b"x", delay_ms=10**12))


async def test_many_messages_of_many_topics_arrive_each_once(name_server: str, topic: str) -> None:
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
                assert result.offset_id == message.offset_id


async def test_messages_that_are_too_much_for_one_batch_are_split_and_stay_in_order(
    name_server: str, topic: str
) -> None:
    messages = [Message(topic, b"%04d" % n * 20_000, sharding_key=f"k{n % 2}") for n in range(80)]
    async with Producer(name_server) as producer:
        await producer.send(Message(topic, b"first"))
        results = await producer.send_many(messages)
    for key in range(2):
        places = [(result.queue, result.queue_offset) for result in results[key::2]]
        assert places == sorted(places)


async def test_what_a_broker_refuses_is_told_for_each_message(name_server: str, topic: str) -> None:
    async with Producer(name_server, tries=1) as producer:
        good, bad = Message(topic, b"x"), Message("SCHEDULE_TOPIC_XXXX", b"x")
        with pytest.raises(PartlySent, match="2 of 3 messages failed, the first is message 0: code") as error:
            await producer.send_many([bad, good, bad])
    ids = [outcome.message_id for outcome in error.value.outcomes if isinstance(outcome, SendResult)]
    assert len(ids) == 1 and isinstance(error.value.outcomes[2], RemoteError)


async def test_traces_tell_of_messages_in_rocketmqs_own_format(name_server: str, topic: str) -> None:
    async with Producer(name_server, trace=True) as producer:
        result = await producer.send(Message(topic, b"paid", tags="TagA", keys=("k1",)))
    async with PullConsumer(name_server, "readers") as consumer, Lookup(name_server) as lookup:
        await queues_of(consumer, TRACE_TOPIC)
        (found,) = await found_by(partial(lookup.by_key, TRACE_TOPIC, result.message_id))
    (trace,) = decode_traces(found.body)
    assert isinstance(trace, PubTrace)
    assert (trace.topic, trace.tags, trace.keys, trace.success) == (topic, "TagA", "k1", True)
    assert (trace.message_id, trace.offset_id) == (result.message_id, result.offset_id)


@pytest.mark.parametrize("compression", ["zlib", "lz4", "zstd"])
async def test_a_long_body_is_compressed_on_its_way_and_whole_at_its_end(
    name_server: str, topic: str, compression: Literal["zlib", "lz4", "zstd"]
) -> None:
    body = b"long " * 20_000
    async with Producer(name_server, compression=compression) as producer:
        await producer.send(Message(topic, body))
    (message,) = await read(name_server, topic, 1)
    assert message.body == body
    assert message.sys_flag & COMPRESSION_MASK


async def test_queues_take_turns(name_server: str, topic: str) -> None:
    async with TopicAdmin(name_server) as admin, Producer(name_server) as producer:
        await admin.create(topic, queues=3)
        results = [await producer.send(Message(topic, b"%d" % n)) for n in range(6)]
        assert [queue.queue_id for queue in await producer.queues(topic)] == [0, 1, 2]
    assert sorted(result.queue.queue_id for result in results) == [0, 0, 1, 1, 2, 2]


async def test_a_named_or_chosen_queue_gets_all_in_order(name_server: str, topic: str) -> None:
    async with Producer(name_server) as producer:
        queue = (await producer.send(Message(topic, b"0"), lambda queues: queues[2])).queue
        assert queue == (await producer.queues(topic))[2]
        results = [await producer.send(Message(topic, b"%d" % n), queue) for n in range(1, 5)]
    assert [(result.queue, result.queue_offset) for result in results] == [(queue, n) for n in range(1, 5)]
    assert [message.body for message in await read(name_server, topic, 5)] == [b"%d" % n for n in range(5)]


async def test_many_sends_at_once_are_each_answered_for_themselves(name_server: str, topic: str) -> None:
    async with Producer(name_server) as producer:
        sends = (producer.send(Message(topic, b"%d" % n)) for n in range(300))
        results: list[SendResult] = await asyncio.gather(*sends)
    by_id = {message.message_id: message for message in await read(name_server, topic, 300)}
    assert len(by_id) == 300
    for number, result in enumerate(results):
        message = by_id[result.message_id]
        assert (message.body, message.queue_offset) == (b"%d" % number, result.queue_offset)


async def test_a_batch_goes_to_one_queue_with_an_id_for_each_message(name_server: str, topic: str) -> None:
    messages = [Message(topic, b"%d" % n, tags=f"T{n}", keys=(f"k{n}",)) for n in range(5)]
    async with Producer(name_server) as producer:
        result = await producer.send_batch(messages)
    found = await read(name_server, topic, 5)
    assert [message.offset_id for message in found] == result.offset_ids
    assert [message.queue_offset for message in found] == [0, 1, 2, 3, 4]
    assert {message.queue_id for message in found} == {result.queue.queue_id}
    assert [(message.body, message.tags, message.keys) for message in found] == [
        (b"%d" % n, f"T{n}", (f"k{n}",)) for n in range(5)
    ]
    assert len({message.message_id for message in found}) == 5
    assert found[0].message_id == result.message_id


async def test_a_batch_may_have_tens_of_thousands_of_messages(name_server: str, topic: str) -> None:
    async with Producer(name_server) as producer:
        result = await producer.send_batch([Message(topic, b"%d" % n) for n in range(20_000)])
        assert len(set(result.offset_ids)) == 20_000
        assert (await producer.send(Message(topic, b"behind"), result.queue)).queue_offset == 20_000


async def test_sends_share_batches_if_that_is_wanted(name_server: str, topic: str) -> None:
    async with Producer(name_server, linger_ms=20) as producer:
        results = await asyncio.gather(
            *(producer.send(Message(topic, b"%d" % n)) for n in range(50)),
            producer.send(Message(topic, b"ordered", sharding_key="k")),
            producer.send(Message(topic, b"late", delay_level=1)),
        )
    assert len({result.message_id for result in results}) == 52
    assert len({result.queue for result in results[:50]}) == 1


async def test_oneway_messages_are_on_their_way_when_the_producer_is_closed(
    name_server: str, topic: str
) -> None:
    async with Producer(name_server) as producer:
        await producer.send(Message(topic, b"first"))
        for n in range(100):
            await producer.send_oneway(Message(topic, b"%d" % n))
    bodies = {message.body for message in await read(name_server, topic, 101)}
    assert bodies == {b"first"} | {b"%d" % n for n in range(100)}


async def test_a_topic_that_may_not_be_written_to_says_so(name_server: str, topic: str) -> None:
    async with TopicAdmin(name_server) as admin, Producer(name_server) as producer:
        await admin.create(topic, perm=4)
        with pytest.raises(NoRoute, match=f"no queue of topic '{topic}' can be written to"):
            await producer.send(Message(topic, b"x"))
        with pytest.raises(NoRoute, match=f"no queue of topic '{topic}' can be written to"):
            await producer.send_many([Message(topic, b"x", sharding_key="ann")])


async def test_a_broker_or_queue_that_the_topic_does_not_have_is_refused(
    name_server: str, topic: str
) -> None:
    async with Producer(name_server) as producer:
        queue = (await producer.send(Message(topic, b"x"))).queue
        with pytest.raises(NoRoute, match="no master of broker 'elsewhere'"):
            await producer.send(Message(topic, b"x"), queue._replace(broker_name="elsewhere"))
        with pytest.raises(RemoteError, match="queue"):
            await producer.send(Message(topic, b"x"), queue._replace(queue_id=99))


async def test_a_closed_producer_sends_nothing(name_server: str, topic: str) -> None:
    async with Producer(name_server) as producer:
        await producer.send(Message(topic, b"x"))
    with pytest.raises(NetworkError, match="closed"):
        await producer.send(Message(topic, b"x"))
