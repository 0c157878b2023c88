"""What is stored is what was sent."""

import asyncio
import random
from pathlib import Path

import pytest
from tests.broker.conftest import send_header
from tests.live import serving

from cometmq import kernels
from cometmq.client import Producer, PullConsumer
from cometmq.message import Message
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, encode
from cometmq.wire.headers import fields

CONNECTIONS = 4
SENDS = 40


@pytest.mark.parametrize("way", ["plain", "bulk"])
async def test_no_body_has_bytes_of_another_connections_frame(tmp_path: Path, way: str) -> None:
    """RocketMQ #10911.

    A stored body began as it had been sent, and went on with frames that other connections sent and got: the
    network's buffers, which are used again and again, were not copied in time.
    """
    if way == "bulk":
        kernels.load()
    chance = random.Random(way)

    async def send_in_pieces(address: str, number: int) -> list[bytes]:
        """Send over one connection, a frame cut anywhere and mixed with those of others; give the bodies."""
        reader, writer = await asyncio.open_connection(*address.split(":"))
        sent = [bytes([65 + number]) * chance.randint(1, 3_000) + b"%d" % n for n in range(SENDS)]
        data = b"".join(
            encode(
                Command(
                    RequestCode.SEND_MESSAGE_V2,
                    opaque=n,
                    ext_fields=fields(send_header("T", number)),
                    body=body,
                )
            )
            for n, body in enumerate(sent)
        )
        while data:
            size = chance.randint(1, 5_000)
            writer.write(data[:size])
            data = data[size:]
            await writer.drain()
            await asyncio.sleep(0)
        for _ in sent:
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
        writer.close()
        await writer.wait_closed()
        return sent

    async def main() -> None:
        async with serving(tmp_path) as live:
            async with Producer(live.name_server) as producer:
                await producer.send(Message("T", b"makes the topic"))
            sending = (send_in_pieces(live.broker, number) for number in range(CONNECTIONS))
            sent = await asyncio.gather(*sending)
            async with PullConsumer(live.name_server, "cg") as consumer:
                for queue in await consumer.queues("T"):
                    stored = [message.body async for message in consumer.messages(queue)]
                    assert [body for body in stored if body != b"makes the topic"] == sent[queue.queue_id]

    await main()
