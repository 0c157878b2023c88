"""``make demo``: the product does its job, end to end, and says whether it all held.

Everything happens in one folder, which is made anew. The broker is a process of its own, so that it can
really be killed.
"""

import asyncio
import hashlib
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import click

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Lookup, Producer, PullConsumer, PullStatus
from cometmq.errors import CometMQError
from cometmq.message import Message, StoredMessage
from cometmq.net.address import free_port

TOPICS: Final = tuple(f"Demo{name}" for name in ("Orders", "Payments", "Parcels", "Refunds"))
CRASH_TOPIC: Final = "DemoCrash"
TAGS: Final = ("new", "paid", "sent", "lost")
QUEUES: Final = 8
MESSAGES: Final = 200_000
BODY_SIZE: Final = 256
BATCH: Final = 100
IN_FLIGHT: Final = 16
CRASH_SENDERS: Final = 64
CRASH_AFTER: Final = 20_000
READY_S_MAX: Final = 30.0


class DemoFailed(CometMQError):
    """Something that the demo promises did not hold."""


class Address(NamedTuple):
    """Where the demo's broker and name server listen."""

    port: int
    namesrv_port: int

    @property
    def name_server(self) -> str:
        """The name server's address."""
        return f"127.0.0.1:{self.namesrv_port}"


@click.command()
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("cometmq-demo"),
    show_default=True,
    help="Folder for all that the demo writes; made anew.",
)
def demo(directory: Path) -> None:
    """Send, consume, kill, recover, find, rebuild and analyse, and say whether it all held."""
    began = time.monotonic()
    shutil.rmtree(directory, ignore_errors=True)
    store = directory / "store"
    store.mkdir(parents=True)
    address = Address(free_port(), free_port())
    with broker(store, address):
        asyncio.run(send_and_consume(address))
    kill_and_recover(store, address)
    with broker(store, address):
        asyncio.run(find(address))
    rebuild(store)
    analyse(store, directory / "parquet")
    say(f"It all held, in {time.monotonic() - began:.0f} s. Look around: {directory}/")


# The broker's process


@contextmanager
def broker(store: Path, address: Address) -> Iterator["subprocess.Popen[str]"]:
    """Run ``cometmq dev`` on ``store``, from its ready line to a clean stop."""
    command = [sys.executable, "-m", "cometmq.cli.main", "dev", "--store", str(store)]
    command += ["--port", str(address.port), "--namesrv-port", str(address.namesrv_port)]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603 - our own command
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        check(line.startswith("ready"), f"the broker did not start: {line!r}")
        say(f"broker up in {time.monotonic() - began:.2f} s: {line.strip()}")
        yield process
    finally:
        process.terminate()
        process.wait(READY_S_MAX)
        if process.stdout is not None:
            process.stdout.close()


# Send and consume


async def send_and_consume(address: Address) -> None:
    """Send to four topics, and count by two groups."""
    async with TopicAdmin(address.name_server) as admin:
        for topic in (*TOPICS, CRASH_TOPIC):
            await admin.create(topic, queues=QUEUES)
    with timed(
        f"sent {MESSAGES:,} messages of {BODY_SIZE} B to {len(TOPICS)} topics × {QUEUES} queues", MESSAGES
    ):
        await send_all(address)
    counts = await count(address, "demo-all", "*")
    check(sum(counts.values()) == MESSAGES, f"group demo-all got {sum(counts.values()):,} of {MESSAGES:,}")
    wanted = f"{TAGS[1]} || {TAGS[2]}"
    counts = await count(address, "demo-tags", wanted)
    check(counts == {TAGS[1]: MESSAGES // 4, TAGS[2]: MESSAGES // 4}, f"group demo-tags got {dict(counts)}")


async def send_all(address: Address) -> None:
    """Send batches, several at a time, each to the next queue."""
    numbers = iter(range(0, MESSAGES, BATCH))

    async def worker(producer: Producer) -> None:
        for first in numbers:
            topic = TOPICS[first // BATCH % len(TOPICS)]
            await producer.send_batch([new_message(topic, first + n) for n in range(BATCH)])

    async with Producer(address.name_server, group="demo-producer") as producer:
        await asyncio.gather(*(worker(producer) for _ in range(IN_FLIGHT)))


def new_message(topic: str, number: int) -> Message:
    """The demo's message of a number: a tag, two keys, and a body that repeats the number."""
    body = (b"%09d " % number * BODY_SIZE)[:BODY_SIZE]
    return Message(topic, body, tags=TAGS[number % 4], keys=(f"order-{number}", f"customer-{number % 1000}"))


async def count(address: Address, group: str, tags: str) -> Counter[str | None]:
    """Read all four topics as ``group``, commit, and count by tag."""
    counts: Counter[str | None] = Counter()
    began = time.monotonic()
    async with PullConsumer(address.name_server, group) as consumer:

        async def drain(topic: str) -> None:
            for queue in await consumer.queues(topic):
                offset = await consumer.committed(queue) or 0
                while (pulled := await consumer.pull(queue, offset, tags=tags)).next_offset > offset:
                    counts.update(message.tags for message in pulled.messages)
                    offset = pulled.next_offset
                await consumer.commit(queue, offset)

        await asyncio.gather(*(drain(topic) for topic in TOPICS))
    total = sum(counts.values())
    rate = total / (time.monotonic() - began)
    say(f"group {group} with tags {tags!r} consumed {total:,} messages, {rate:,.0f}/s: {dict(counts)}")
    return counts


# Kill and recover


def kill_and_recover(store: Path, address: Address) -> None:
    """Kill the broker in the middle of a send; show that every acknowledged message is there."""
    with broker(store, address) as process:
        acknowledged = asyncio.run(send_until_killed(address, process))
    check(process.returncode == -signal.SIGKILL, f"the broker was not killed: {process.returncode}")
    say(f"killed the broker with SIGKILL in the middle of a send; {len(acknowledged):,} were acknowledged")
    with broker(store, address):
        stored = asyncio.run(read_numbers(address))
    lost = acknowledged - set(stored)
    check(not lost, f"{len(lost)} acknowledged messages are missing: {sorted(lost)[:5]}")
    say(f"after the restart {len(stored):,} are there: every acknowledged one, each whole")


async def send_until_killed(address: Address, process: "subprocess.Popen[str]") -> set[int]:
    """Send until the broker is gone, which it is after some thousand messages; give the acknowledged ones."""
    acknowledged: set[int] = set()
    numbers = iter(range(10**9))

    async def worker(producer: Producer) -> None:
        for number in numbers:
            await producer.send(new_message(CRASH_TOPIC, number))
            acknowledged.add(number)
            if len(acknowledged) == CRASH_AFTER:
                process.kill()

    async with Producer(address.name_server, group="demo-producer", tries=1) as producer:
        workers = (worker(producer) for _ in range(CRASH_SENDERS))
        await asyncio.gather(*workers, return_exceptions=True)
    return acknowledged


async def read_numbers(address: Address) -> list[int]:
    """Read the crash topic; check each body against its number, and each queue for gaps."""
    numbers: list[int] = []
    async with PullConsumer(address.name_server, "demo-crash") as consumer:
        for queue in await consumer.queues(CRASH_TOPIC):
            expected = 0
            async for message in consumer.messages(queue):
                number = int(message.body[:9])
                check(message.body == new_message(CRASH_TOPIC, number).body, f"message {number} is damaged")
                check(message.queue_offset == expected, f"{queue} has a gap at {expected}")
                numbers.append(number)
                expected += 1
    return numbers


# Find


async def find(address: Address) -> None:
    """Find one message by key, by id, by unique id and by time."""
    number = MESSAGES // 2
    topic = TOPICS[number // BATCH % len(TOPICS)]
    async with Lookup(address.name_server) as lookup:
        by_key = await lookup.by_key(topic, f"order-{number}")
        check(len(by_key) == 1, f"key order-{number} found {len(by_key)} messages")
        message = by_key[0]
        say(f"found by key order-{number}: queue {message.queue_id}, offset {message.queue_offset}")
        by_id = await lookup.by_offset_id(message.offset_id)
        check(by_id == message, "the offset id found another message")
        say(f"found by id {message.offset_id}")
        by_unique_id = await lookup.by_unique_id(topic, message.message_id)
        check(message in by_unique_id, "the unique id found another message")
        say(f"found by unique id {message.message_id}")
    await find_by_time(address, topic, message)


async def find_by_time(address: Address, topic: str, message: StoredMessage) -> None:
    """Find a message by the time at which it was stored."""
    async with PullConsumer(address.name_server, "demo-find") as consumer:
        queues = await consumer.queues(topic)
        queue = next(queue for queue in queues if queue.queue_id == message.queue_id)
        offset = await consumer.offset_by_time(queue, message.store_time)
        pulled = await consumer.pull(queue, offset)
        check(pulled.status is PullStatus.FOUND, f"nothing at the time {message.store_time}")
        first = pulled.messages[0]
        check(first.store_time == message.store_time, f"time {message.store_time} found {first.store_time}")
        say(f"found by time {message.store_time}: queue offset {first.queue_offset}")


# Rebuild and analyse


def rebuild(store: Path) -> None:
    """Delete the ConsumeQueues and the index, rebuild them from the CommitLog alone, and compare."""
    before = digest(store / "consumequeue")
    for name in ("consumequeue", "index"):
        shutil.rmtree(store / name)
    with timed("deleted consumequeue/ and index/ and rebuilt them from the CommitLog alone", None):
        run("store", "rebuild", str(store))
    check(digest(store / "consumequeue") == before, "the rebuilt ConsumeQueues differ")
    run("store", "verify", str(store))
    say("the rebuilt ConsumeQueues are byte for byte what they were, and the store is sound")


def digest(directory: Path) -> dict[str, str]:
    """The SHA-1 of each file below ``directory``."""
    return {
        str(path.relative_to(directory)): hashlib.sha1(path.read_bytes()).hexdigest()  # noqa: S324 - no secret
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def run(*arguments: str) -> None:
    """Run a ``cometmq`` command, quietly unless it fails."""
    command = [sys.executable, "-m", "cometmq.cli.main", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - our own
    check(result.returncode == 0, f"cometmq {' '.join(arguments)}: {result.stdout}{result.stderr}")


def analyse(store: Path, parquet: Path) -> None:
    """Count by topic and tag in Spark, straight from the store's files, and write Parquet."""
    from cometmq.spark.session import session  # noqa: PLC0415 - Spark takes seconds to import

    began = time.monotonic()
    spark = session("local[2]", "cometmq-demo", work_dir=parquet.parent / "spark")
    try:
        messages = spark.read.format("rocketmq").load(str(store))
        chosen = messages.where(messages.topic.startswith("Demo"))
        rows = chosen.groupBy("topic", "tags").count().orderBy("topic", "tags").collect()
        chosen.select(
            "topic", "queue_id", "queue_offset", "tags", "keys", "store_time", "body"
        ).write.parquet(str(parquet), partitionBy="topic")
        written = spark.read.parquet(str(parquet)).count()
    finally:
        spark.stop()
    total = sum(row["count"] for row in rows)
    check(written == total, f"Parquet has {written:,} rows of {total:,}")
    for topic in TOPICS:
        counts = {row["tags"]: row["count"] for row in rows if row["topic"] == topic}
        check(sum(counts.values()) == MESSAGES // len(TOPICS), f"Spark counts {counts} in {topic}")
        say(f"Spark: {topic:<13} {counts}")
    seconds = time.monotonic() - began
    say(f"Spark read {total:,} messages from the store's files and wrote Parquet in {seconds:.1f} s")


# Saying


def say(text: str) -> None:
    """Print one line at once."""
    click.echo(text)
    sys.stdout.flush()


def check(holds: bool, otherwise: str) -> None:
    """Go on only if it holds."""
    if not holds:
        raise DemoFailed(otherwise)


@contextmanager
def timed(text: str, messages: int | None) -> Iterator[None]:
    """Say afterwards what was done, how long it took and at which rate."""
    began = time.monotonic()
    yield
    seconds = time.monotonic() - began
    rate = f", {messages / seconds:,.0f}/s" if messages else ""
    say(f"{text} in {seconds:.1f} s{rate}")


if __name__ == "__main__":
    try:
        demo(standalone_mode=False)
    except DemoFailed as error:
        click.echo(f"FAILED: {error}", err=True)
        sys.exit(1)
