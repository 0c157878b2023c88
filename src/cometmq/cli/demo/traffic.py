"""The messages that the demo sends to its broker and reads from it."""

import asyncio
import subprocess
import time
from collections import Counter
from typing import Final

from cometmq.admin.readable import time_text
from cometmq.admin.topics import TopicAdmin
from cometmq.cli.demo.report import TAGS, by_tag, check, detail, say, speed
from cometmq.client import Lookup, Producer, PullConsumer, PullStatus
from cometmq.errors import NetworkError
from cometmq.message import Message, StoredMessage

TOPICS: Final = tuple(f"Demo{name}" for name in ("Orders", "Payments", "Parcels", "Refunds"))
CRASH_TOPIC: Final = "DemoCrash"
WANTED: Final = ("paid", "sent")
QUEUES: Final = 8
MESSAGES: Final = 200_000
BODY_SIZE: Final = 256
BATCH: Final = 100
IN_FLIGHT: Final = 16
CRASH_SENDERS: Final = 64
CRASH_AFTER: Final = 20_000


async def send_and_consume(name_server: str) -> None:
    """Send to four topics, consume by two groups, and check the counts."""
    async with TopicAdmin(name_server) as admin:
        for topic in (*TOPICS, CRASH_TOPIC):
            await admin.create(topic, queues=QUEUES)
    say(f"Send {MESSAGES:,} messages of {BODY_SIZE} B to {len(TOPICS)} topics × {QUEUES} queues")
    began = time.monotonic()
    await send_all(name_server)
    detail(f"sent in {speed(MESSAGES, began)}")

    say("Consume them all, as group demo-all")
    counts = await count(name_server, "demo-all", "*")
    check(counts == dict.fromkeys(TAGS, MESSAGES // len(TAGS)), f"group demo-all got {dict(counts)}")
    expression = " || ".join(WANTED)
    say(f"Consume the messages with the tags {expression}, as group demo-tags")
    counts = await count(name_server, "demo-tags", expression)
    check(counts == dict.fromkeys(WANTED, MESSAGES // len(TAGS)), f"group demo-tags got {dict(counts)}")


async def send_all(name_server: str) -> None:
    """Send batches, several at a time, to the queues in turn."""
    numbers = iter(range(0, MESSAGES, BATCH))

    async def worker(producer: Producer) -> None:
        for first in numbers:
            topic = topic_of(first)
            await producer.send_batch([new_message(topic, first + n) for n in range(BATCH)])

    async with Producer(name_server, group="demo-producer") as producer:
        await asyncio.gather(*(worker(producer) for _ in range(IN_FLIGHT)))


def topic_of(number: int) -> str:
    """Return the topic of a message: batches go to the topics in turn."""
    return TOPICS[number // BATCH % len(TOPICS)]


def new_message(topic: str, number: int) -> Message:
    """Build the demo's message with a number: a tag, two keys, and a body that repeats the number."""
    body = (b"%09d " % number * BODY_SIZE)[:BODY_SIZE]
    tag = TAGS[number % len(TAGS)]
    return Message(topic, body, tags=tag, keys=(f"order-{number}", f"customer-{number % 1000}"))


async def count(name_server: str, group: str, tags: str) -> Counter[str | None]:
    """Consume all four topics as ``group``, commit, and count by tag."""
    counts: Counter[str | None] = Counter()
    began = time.monotonic()
    async with PullConsumer(name_server, group) as consumer:

        async def drain(topic: str) -> None:
            for queue in await consumer.queues(topic):
                offset = await consumer.committed(queue) or 0
                while (pulled := await consumer.pull(queue, offset, tags=tags)).next_offset > offset:
                    counts.update(message.tags for message in pulled.messages)
                    offset = pulled.next_offset
                await consumer.commit(queue, offset)

        await asyncio.gather(*(drain(topic) for topic in TOPICS))
    detail(f"{counts.total():,} in {speed(counts.total(), began)}: {by_tag(counts)}")
    return counts


async def send_until_killed(name_server: str, process: "subprocess.Popen[str]") -> set[int]:
    """Send, kill the broker after some thousand messages, and return the acknowledged numbers."""
    acknowledged: set[int] = set()
    numbers = iter(range(10**9))

    async def worker(producer: Producer) -> None:
        for number in numbers:
            try:
                await producer.send(new_message(CRASH_TOPIC, number))
            except NetworkError:
                return
            acknowledged.add(number)
            if len(acknowledged) == CRASH_AFTER:
                process.kill()

    async with Producer(name_server, group="demo-producer", tries=1) as producer:
        await asyncio.gather(*(worker(producer) for _ in range(CRASH_SENDERS)))
    return acknowledged


async def read_numbers(name_server: str) -> list[int]:
    """Read the crash topic; check each body against its number, and each queue for gaps."""
    numbers: list[int] = []
    async with PullConsumer(name_server, "demo-crash") as consumer:
        for queue in await consumer.queues(CRASH_TOPIC):
            expected = 0
            async for message in consumer.messages(queue):
                number = int(message.body[:9])
                check(message.body == new_message(CRASH_TOPIC, number).body, f"message {number} is damaged")
                check(message.queue_offset == expected, f"{queue} has a gap at {expected}")
                numbers.append(number)
                expected += 1
    return numbers


async def find(name_server: str) -> None:
    """Find one message by key, by id, by unique id and by time."""
    number = MESSAGES // 2
    topic = topic_of(number)
    async with Lookup(name_server) as lookup:
        by_key = await lookup.by_key(topic, f"order-{number}")
        check(len(by_key) == 1, f"key order-{number} found {len(by_key)} messages")
        message = by_key[0]
        check(message.body == new_message(topic, number).body, f"key order-{number} found another message")
        where = f"{topic}, queue {message.queue_id}, offset {message.queue_offset}"
        detail(f"by key order-{number}: {where}")
        by_id = await lookup.by_offset_id(message.offset_id)
        check(by_id == message, "the offset id found another message")
        detail(f"by id {message.offset_id}: the same")
        by_unique_id = await lookup.by_unique_id(topic, message.message_id)
        check(by_unique_id == [message], "the unique id found another message")
        detail(f"by unique id {message.message_id}: the same")
    first = await find_by_time(name_server, message)
    detail(f"by time {time_text(message.store_time)}: the first of that ms in its queue, offset {first}")


async def find_by_time(name_server: str, message: StoredMessage) -> int:
    """Find the queue offset of the first message in the queue with the store time of ``message``."""
    async with PullConsumer(name_server, "demo-find") as consumer:
        queues = await consumer.queues(message.topic)
        queue = next(queue for queue in queues if queue.queue_id == message.queue_id)
        offset = await consumer.offset_by_time(queue, message.store_time)
        pulled = await consumer.pull(queue, offset)
    check(pulled.status is PullStatus.FOUND, f"nothing at the time {message.store_time}")
    first = pulled.messages[0]
    check(first.store_time == message.store_time, f"time {message.store_time} found {first.store_time}")
    check(first.queue_offset <= message.queue_offset, f"time {message.store_time} found a later message")
    return first.queue_offset
