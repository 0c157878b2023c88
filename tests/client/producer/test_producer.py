"""What a producer refuses, and what it does with brokers that fail."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.client.brokers import Broker, cluster
from tests.live import serving

from cometmq.client import Producer
from cometmq.errors import (
    IllegalName,
    MessageIllegal,
    NoRoute,
    PartlySent,
    RemoteError,
    SettingsError,
)
from cometmq.message import Message
from cometmq.net.address import free_port
from cometmq.wire.codes import ResponseCode


async def test_a_message_whose_queue_a_function_chose_is_tried_once() -> None:
    broker = Broker("a", ResponseCode.SYSTEM_BUSY)
    async with cluster(broker) as name_server, Producer(name_server) as producer:
        with pytest.raises(RemoteError):
            await producer.send(Message("Orders", b"x"), lambda queues: queues[-1])
    assert len(broker.sent) == 1


async def test_a_message_with_a_sharding_key_is_sent_to_no_other_queue() -> None:
    brokers = [Broker(name, *[ResponseCode.SYSTEM_BUSY] * 9) for name in "ab"]
    async with cluster(*brokers) as name_server, Producer(name_server) as producer:
        with pytest.raises(RemoteError):
            await producer.send(Message("Orders", b"x", sharding_key="ann"))
    assert sum(len(broker.sent) for broker in brokers) == 1


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message("a/b", b"x"), IllegalName),
        (Message("Orders", b""), MessageIllegal),
        (Message("Orders", b"x", properties={"TAGS": "a"}), MessageIllegal),
        (Message("Orders", b"x", delay_level=99), MessageIllegal),
    ],
)
async def test_what_breaks_a_limit_is_refused_before_anything_is_sent(
    message: Message, error: type[Exception]
) -> None:
    async with Producer(f"127.0.0.1:{free_port()}") as producer:
        for send in (producer.send, producer.send_oneway):
            with pytest.raises(error):
                await send(message)
        with pytest.raises(error):
            await producer.send_batch([message])


@pytest.mark.parametrize(
    ("message", "error", "words"),
    [
        (Message("Orders", b""), MessageIllegal, "message 2, of topic 'Orders': body is empty"),
        (Message("Orders", b"x", tags="*"), MessageIllegal, "message 2, of topic 'Orders': tags"),
        (Message("Orders", b"x", delay_ms=-1), MessageIllegal, "message 2, of topic 'Orders': delay level 0"),
        (
            Message("Orders", b"x", delay_level=19),
            MessageIllegal,
            "message 2, of topic 'Orders': delay level 19: the highest is 18; give delay_ms or deliver_time",
        ),
        (Message("a/b", b"x"), IllegalName, "message 2, of topic 'a/b': "),
        (Message("a/b", b"x", sharding_key="k"), IllegalName, "message 2, of topic 'a/b': "),
        (Message("x" * 128, b"x"), IllegalName, "message 2, of topic 'xxx"),
    ],
)
async def test_one_illegal_message_among_many_is_named_and_none_is_sent(
    message: Message, error: type[Exception], words: str
) -> None:
    good = Message("Orders", b"x")
    async with Producer(f"127.0.0.1:{free_port()}") as producer:
        with pytest.raises(error, match=words):
            await producer.send_many([good, Message("Others", b"x"), message, good])


async def test_one_illegal_message_of_a_batch_is_named() -> None:
    good = Message("Orders", b"x")
    async with Producer(f"127.0.0.1:{free_port()}") as producer:
        with pytest.raises(MessageIllegal, match="message 1, of topic 'Orders': body is empty"):
            await producer.send_batch([good, Message("Orders", b"")])
        with pytest.raises(MessageIllegal, match="message 1, of topic 'Orders': batch with a delay"):
            await producer.send_batch([good, Message("Orders", b"x", delay_level=1)])
        with pytest.raises(MessageIllegal, match=r"^batch for the topics"):
            await producer.send_batch([good, Message("Others", b"x")])


def test_a_group_and_name_servers_that_cannot_be_are_refused_at_once() -> None:
    with pytest.raises(IllegalName):
        Producer("127.0.0.1:9876", "a group")
    with pytest.raises(SettingsError):
        Producer("nowhere")
    snappy: dict[str, Any] = {"compression": "snappy"}
    with pytest.raises(SettingsError, match="compression 'snappy': give zlib, lz4 or zstd"):
        Producer("127.0.0.1:9876", **snappy)
    with pytest.raises(SettingsError, match="in_flight_max 0"):
        Producer("127.0.0.1:9876", in_flight_max=0)
    with pytest.raises(SettingsError, match="batch_bytes 4194304: give 1 to"):
        Producer("127.0.0.1:9876", batch_bytes=4 << 20)


async def test_a_topic_that_cannot_be_made_has_no_route(tmp_path: Path) -> None:
    async with (
        serving(tmp_path, auto_create_topic_enable=False) as live,
        Producer(live.name_server) as producer,
    ):
        with pytest.raises(NoRoute, match="'Orders'"):
            await producer.send(Message("Orders", b"x"))


async def test_no_more_than_the_limit_are_unanswered_at_once() -> None:
    broker = Broker("a", *[None] * 3)
    async with (
        cluster(broker) as name_server,
        Producer(name_server, in_flight_max=3, tries=1, timeout_ms=60_000) as producer,
    ):
        sends = [asyncio.create_task(producer.send(Message("Orders", b"x"))) for _ in range(9)]
        await broker.silent.wait()
        assert len(broker.sent) == 3
        assert not any(task.done() for task in sends)
        for task in sends[:3]:
            task.cancel()
        await asyncio.gather(*sends[3:])
        assert len(broker.sent) == 9


async def test_more_than_a_connection_holds_waits_until_there_is_room() -> None:
    broker = Broker("a")
    messages = [Message("Orders", bytes(700_000)) for _ in range(70)]
    async with cluster(broker) as name_server, Producer(name_server, compress_over=None) as producer:
        assert len(await producer.send_many(messages)) == 70
    assert len(broker.sent) == 70


async def test_behind_a_part_that_failed_none_of_its_queue_is_sent() -> None:
    broker = Broker("a", ResponseCode.MESSAGE_ILLEGAL)
    messages = [Message("Orders", bytes(600_000), sharding_key="k") for _ in range(6)]
    async with cluster(broker) as name_server, Producer(name_server) as producer:
        with pytest.raises(PartlySent, match="6 of 6 messages failed"):
            await producer.send_many(messages)
    assert len(broker.sent) == 1
