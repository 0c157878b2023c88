from collections import Counter
from pathlib import Path

import pytest
from tests.live import Live, serving

from cometmq.admin.topics import TopicAdmin
from cometmq.cli.demo.report import TAGS, DemoFailed
from cometmq.cli.demo.traffic import (
    BATCH,
    BODY_SIZE,
    CRASH_TOPIC,
    MESSAGES,
    QUEUES,
    TOPICS,
    find_by_time,
    new_message,
    read_numbers,
    topic_of,
)
from cometmq.client import Producer, PullConsumer
from cometmq.format.layout import valid_topic
from cometmq.message import Message, MessageQueue


def test_a_message_tells_its_number_in_a_body_of_the_full_length() -> None:
    for number in (0, 7, 123_456, MESSAGES - 1, 10**9 - 1):
        message = new_message("T", number)
        assert (len(message.body), int(message.body[:9])) == (BODY_SIZE, number)
        assert message.keys == (f"order-{number}", f"customer-{number % 1000}")
    assert len({new_message("T", number).body for number in range(1_000)}) == 1_000


def test_topics_and_tags_get_equal_shares() -> None:
    assert all(map(valid_topic, TOPICS))
    assert set(Counter(map(topic_of, range(0, MESSAGES, BATCH))).values()) == {
        MESSAGES // BATCH // len(TOPICS)
    }
    tags = Counter(new_message("T", number).tags for number in range(BATCH))
    assert tags == dict.fromkeys(TAGS, BATCH // len(TAGS))


async def make_topics(live: Live) -> None:
    async with TopicAdmin(live.name_server) as admin:
        for topic in (*TOPICS, CRASH_TOPIC):
            await admin.create(topic, queues=QUEUES)


async def test_batches_of_topics_in_turn_reach_every_queue(tmp_path: Path) -> None:
    async with serving(tmp_path) as live:
        await make_topics(live)
        async with (
            Producer(live.name_server) as producer,
            PullConsumer(live.name_server, "g") as consumer,
        ):
            for first in range(0, len(TOPICS) * QUEUES * BATCH, BATCH):
                topic = topic_of(first)
                await producer.send_batch([new_message(topic, first + n) for n in range(3)])
            for topic in TOPICS:
                queues = await consumer.queues(topic)
                assert [await consumer.max_offset(queue) for queue in queues] == [3] * QUEUES


async def test_a_message_is_found_by_its_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as live:
        await make_topics(live)
        queue = MessageQueue(TOPICS[0], "broker-a", 0)
        async with Producer(live.name_server) as producer:
            for number in range(50):
                await producer.send(new_message(TOPICS[0], number), queue)
        async with PullConsumer(live.name_server, "g") as consumer:
            messages = [message async for message in consumer.messages(queue)]
        for message in messages:
            first = await find_by_time(live.name_server, message)
            assert messages[first].store_time == message.store_time
            assert first == 0 or messages[first - 1].store_time < message.store_time


async def test_what_the_crash_left_is_read_and_what_is_damaged_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as live:
        await make_topics(live)
        async with Producer(live.name_server) as producer:
            for number in range(30):
                await producer.send(new_message(CRASH_TOPIC, number))
            assert sorted(await read_numbers(live.name_server)) == list(range(30))
            await producer.send(Message(CRASH_TOPIC, b"000000031 not what was sent"))
            with pytest.raises(DemoFailed, match="message 31 is damaged"):
                await read_numbers(live.name_server)
