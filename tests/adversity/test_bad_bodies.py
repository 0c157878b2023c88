"""Bodies that are no bodies: a handler, a poll and a pull learn of them by an error, and get on."""

import asyncio
import zlib
from pathlib import Path

import pytest
from tests.shop import PROMPT, Shop, shop

from cometmq.client import LitePullConsumer, PullConsumer, Start
from cometmq.client.answer import successful
from cometmq.client.requests.queue_requests import QueuePull
from cometmq.errors import CometMQError, UndecodableBody
from cometmq.format.compression import DECOMPRESSED_MAX
from cometmq.format.layout import DLQ_PREFIX
from cometmq.format.sys_flag import CompressionType, compressed_with
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import SendHeaderV2, fields

ZLIB = compressed_with(0, CompressionType.ZLIB)


async def send_packed(here: Shop, body: bytes) -> None:
    """Send a body of which is only said that it is compressed."""
    header = SendHeaderV2(
        producer_group="g",
        topic=here.queue.topic,
        default_topic="TBW102",
        default_topic_queue_count=1,
        queue_id=0,
        sys_flag=ZLIB,
        born_time=0,
        flag=0,
        properties="",
        reconsume_times=0,
        max_reconsume_times=16,
    )
    command = Command(RequestCode.SEND_MESSAGE_V2, ext_fields=fields(header), body=body)
    successful(await here.connections.request(here.live.broker, command))


@pytest.mark.parametrize("body", [b"no zlib", zlib.compress(bytes(DECOMPRESSED_MAX + 1), 1)])
async def test_a_handler_never_gets_it_and_it_becomes_a_dead_letter_as_it_was(
    tmp_path: Path, body: bytes
) -> None:
    got: list[bytes] = []
    async with shop(tmp_path, store=PROMPT) as here:
        await send_packed(here, body)
        await here.send(b"behind it")
        consumer = here.consumer(max_reconsume_times=1)
        handled = asyncio.Event()

        def handle(message: StoredMessage) -> None:
            got.append(message.body)
            handled.set()

        consumer.subscribe(here.queue.topic, handle)
        dead = MessageQueue(DLQ_PREFIX + here.group_name, here.queue.broker_name, 0)
        async with consumer:
            await here.has_committed(2)
            await handled.wait()
            (letter,) = await letters(here, dead)
    assert got == [b"behind it"]
    assert (letter.body, letter.sys_flag & ZLIB) == (body, ZLIB)


async def letters(here: Shop, dead: MessageQueue) -> list[StoredMessage]:
    """Wait for dead letters, whose topic is made with the first one."""
    while True:
        try:
            if found := (await here.requests.pull_stored(QueuePull(dead, 0))).messages:
                return found
        except CometMQError:
            await asyncio.sleep(0.05)


async def test_a_pull_ends_before_it_and_the_next_names_it(tmp_path: Path) -> None:
    async with shop(tmp_path) as here, PullConsumer(here.live.name_server, "g") as consumer:
        await here.send(b"before")
        await send_packed(here, b"no zlib")
        await here.send(b"behind")
        pulled = await consumer.pull(here.queue, 0)
        assert ([message.body for message in pulled.messages], pulled.next_offset) == ([b"before"], 1)
        with pytest.raises(
            UndecodableBody, match=r"topic 'Orders', queue 0, queue offset 1: .*body of 7"
        ) as bad:
            await consumer.pull(here.queue, pulled.next_offset)
        assert bad.value.message.body == b"no zlib"
        pulled = await consumer.pull(here.queue, bad.value.message.queue_offset + 1)
        assert [message.body for message in pulled.messages] == [b"behind"]


async def test_a_poll_names_it_once_and_goes_on(tmp_path: Path) -> None:
    async with (
        shop(tmp_path) as here,
        LitePullConsumer(here.live.name_server, "g", start=Start.FIRST) as consumer,
    ):
        await here.send(b"before")
        await send_packed(here, b"no zlib")
        await here.send(b"behind")
        await consumer.assign([here.queue])
        assert [message.body for message in await consumer.poll(60_000)] == [b"before"]
        with pytest.raises(UndecodableBody, match="queue offset 1"):
            await consumer.poll(60_000)
        assert [message.body for message in await consumer.poll(60_000)] == [b"behind"]
