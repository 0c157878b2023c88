"""The producer against a live broker, and against brokers that fail."""

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.client.brokers import Broker, cluster
from tests.live import BROKER, Live, serving

from cometmq.admin.topics import TopicAdmin
from cometmq.client import Lookup, Producer, PullConsumer, SendResult, SendStatus
from cometmq.errors import (
    IllegalName,
    MessageIllegal,
    NetworkError,
    NoRoute,
    PartlySent,
    RemoteError,
    SettingsError,
)
from cometmq.format.sys_flag import COMPRESSION_MASK
from cometmq.io.clock import ManualClock
from cometmq.message import Message, MessageQueue, StoredMessage
from cometmq.net.address import free_port
from cometmq.wire.codes import ResponseCode

NOW_MS = 1_700_000_000_000


async def stored(live: Live, topic: str = "Orders") -> list[StoredMessage]:
    """All messages of a topic, queue by queue."""
    async with PullConsumer(live.name_server, "readers") as consumer:
        return [
            message for queue in await consumer.queues(topic) async for message in consumer.messages(queue)
        ]


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(main)


def test_a_message_arrives_as_it_was_sent(tmp_path: Path) -> None:
    async def main() -> None:
        clock = ManualClock(NOW_MS)
        sent = Message("Orders", b"paid", "TagA", ("k1", "k2"), {"color": "red"}, flag=5)
        async with serving(tmp_path) as live, Producer(live.name_server, "makers", clock=clock) as producer:
            result = await producer.send(sent)
            (message,) = await stored(live)
        assert result.status is SendStatus.SEND_OK
        assert result.queue == MessageQueue("Orders", BROKER, message.queue_id)
        assert result.queue_offset == message.queue_offset == 0
        assert result.offset_ids == [message.offset_id]
        assert result.message_id == message.message_id
        assert (message.body, message.tags, message.keys, message.flag) == (b"paid", "TagA", ("k1", "k2"), 5)
        assert message.properties["color"] == "red"
        assert message.born_time == NOW_MS

    run(main())


@pytest.mark.parametrize("compression", ["zlib", "lz4", "zstd"])
def test_a_long_body_is_compressed_on_its_way_and_whole_at_its_end(
    tmp_path: Path, compression: Literal["zlib", "lz4", "zstd"]
) -> None:
    async def main() -> None:
        body = b"long " * 20_000
        async with (
            serving(tmp_path) as live,
            Producer(live.name_server, compression=compression) as producer,
        ):
            await producer.send(Message("Orders", body))
            (message,) = await stored(live)
        assert message.body == body
        assert message.sys_flag & COMPRESSION_MASK

    run(main())


def test_queues_take_turns(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as live:
            async with TopicAdmin(live.name_server) as admin:
                await admin.create("Orders", queues=3)
            async with Producer(live.name_server) as producer:
                results = [await producer.send(Message("Orders", b"%d" % n)) for n in range(6)]
                assert [queue.queue_id for queue in await producer.queues("Orders")] == [0, 1, 2]
        assert sorted(result.queue.queue_id for result in results) == [0, 0, 1, 1, 2, 2]

    run(main())


def test_a_named_queue_gets_all_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        queue = MessageQueue("Orders", BROKER, 2)
        async with serving(tmp_path) as live, Producer(live.name_server) as producer:
            results = [await producer.send(Message("Orders", b"%d" % n), queue) for n in range(5)]
            bodies = [message.body for message in await stored(live)]
        assert [(result.queue, result.queue_offset) for result in results] == [(queue, n) for n in range(5)]
        assert bodies == [b"0", b"1", b"2", b"3", b"4"]

    run(main())


def test_a_function_may_choose_the_queue_and_it_is_tried_once(tmp_path: Path) -> None:
    def last(queues: Sequence[MessageQueue]) -> MessageQueue:
        return queues[-1]

    async def main() -> None:
        async with serving(tmp_path) as live, Producer(live.name_server) as producer:
            result = await producer.send(Message("Orders", b"x"), last)
            assert result.queue == (await producer.queues("Orders"))[-1]
        broker = Broker("a", ResponseCode.SYSTEM_BUSY)
        async with cluster(broker) as name_server, Producer(name_server) as producer:
            with pytest.raises(RemoteError):
                await producer.send(Message("Orders", b"x"), last)

    run(main())


def test_a_message_with_a_sharding_key_is_sent_to_no_other_queue() -> None:
    async def main() -> None:
        brokers = [Broker(name, *[ResponseCode.SYSTEM_BUSY] * 9) for name in "ab"]
        async with cluster(*brokers) as name_server, Producer(name_server) as producer:
            with pytest.raises(RemoteError):
                await producer.send(Message("Orders", b"x", sharding_key="ann"))
        assert sum(len(broker.sent) for broker in brokers) == 1

    run(main())


def test_many_sends_at_once_are_each_answered_for_themselves(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as live, Producer(live.name_server) as producer:
            sends = (producer.send(Message("Orders", b"%d" % n)) for n in range(300))
            results: list[SendResult] = await asyncio.gather(*sends)
            by_id = {message.message_id: message for message in await stored(live)}
        assert len(by_id) == 300
        for number, result in enumerate(results):
            message = by_id[result.message_id]
            assert (message.body, message.queue_offset) == (b"%d" % number, result.queue_offset)

    run(main())


def test_a_batch_goes_to_one_queue_with_an_id_for_each_message(tmp_path: Path) -> None:
    async def main() -> None:
        messages = [Message("Orders", b"%d" % n, tags=f"T{n}", keys=(f"k{n}",)) for n in range(5)]
        async with serving(tmp_path) as live, Producer(live.name_server) as producer:
            result = await producer.send_batch(messages)
            found = await stored(live)
        assert [message.offset_id for message in found] == result.offset_ids
        assert [message.queue_offset for message in found] == [0, 1, 2, 3, 4]
        assert {message.queue_id for message in found} == {result.queue.queue_id}
        assert [(message.body, message.tags, message.keys) for message in found] == [
            (b"%d" % n, f"T{n}", (f"k{n}",)) for n in range(5)
        ]
        assert len({message.message_id for message in found}) == 5
        assert found[0].message_id == result.message_id

    run(main())


def test_oneway_messages_are_on_their_way_when_the_producer_is_closed(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as live:
            async with Producer(live.name_server) as producer:
                await producer.send(Message("Orders", b"first"))
                for n in range(100):
                    await producer.send_oneway(Message("Orders", b"%d" % n))
                await producer.send(Message("Orders", b"last"))  # answered after them: same connection
            bodies = {message.body for message in await stored(live)}
        assert bodies == {b"first", b"last"} | {b"%d" % n for n in range(100)}

    run(main())


@pytest.mark.parametrize(
    ("message", "error"),
    [
        (Message("a/b", b"x"), IllegalName),
        (Message("Orders", b""), MessageIllegal),
        (Message("Orders", b"x", properties={"TAGS": "a"}), MessageIllegal),
    ],
)
def test_what_breaks_a_limit_is_refused_before_anything_is_sent(
    message: Message, error: type[Exception]
) -> None:
    async def main() -> None:
        async with Producer(f"127.0.0.1:{free_port()}") as producer:
            for send in (producer.send, producer.send_oneway):
                with pytest.raises(error):
                    await send(message)
            with pytest.raises(error):
                await producer.send_batch([message])

    run(main())


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


def test_a_topic_that_cannot_be_made_has_no_route(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path, auto_create_topic_enable=False) as live,
            Producer(live.name_server) as producer,
        ):
            with pytest.raises(NoRoute, match="'Orders'"):
                await producer.send(Message("Orders", b"x"))

    run(main())


def test_a_topic_that_may_not_be_written_to_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as live:
            async with TopicAdmin(live.name_server) as admin:
                await admin.create("Orders", perm=4)
            async with Producer(live.name_server) as producer:
                with pytest.raises(NoRoute, match="no queue of topic 'Orders' can be written to"):
                    await producer.send(Message("Orders", b"x"))

    run(main())


def test_a_queue_on_a_broker_that_is_not_known_is_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as live, Producer(live.name_server) as producer:
            with pytest.raises(NoRoute, match="no master of broker 'elsewhere'"):
                await producer.send(Message("Orders", b"x"), MessageQueue("Orders", "elsewhere", 0))

    run(main())


def test_a_queue_that_the_topic_does_not_have_is_refused_by_the_broker(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as live, Producer(live.name_server) as producer:
            with pytest.raises(RemoteError, match="has no queue 99"):
                await producer.send(Message("Orders", b"x"), MessageQueue("Orders", BROKER, 99))

    run(main())


def test_a_closed_producer_sends_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as live:
            async with Producer(live.name_server) as producer:
                await producer.send(Message("Orders", b"x"))
            with pytest.raises(NetworkError, match="closed"):
                await producer.send(Message("Orders", b"x"))

    run(main())


def test_a_message_can_be_found_by_what_its_send_gave(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            serving(tmp_path) as live,
            Producer(live.name_server) as producer,
            Lookup(live.name_server) as lookup,
        ):
            result = await producer.send(Message("Orders", b"paid"))
            assert (await lookup.by_offset_id(result.offset_ids[0])).body == b"paid"
            (found,) = await lookup.by_unique_id("Orders", result.message_id)
            assert found.body == b"paid"

    run(main())


def test_no_more_than_the_limit_are_unanswered_at_once() -> None:
    async def main() -> None:
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

    run(main())


def test_more_than_a_connection_holds_waits_until_there_is_room() -> None:
    async def main() -> None:
        broker = Broker("a")
        messages = [Message("Orders", bytes(700_000)) for _ in range(70)]
        async with cluster(broker) as name_server, Producer(name_server, compress_over=None) as producer:
            assert len(await producer.send_many(messages)) == 70
        assert len(broker.sent) == 70

    run(main())


def test_behind_a_part_that_failed_none_of_its_queue_is_sent() -> None:
    async def main() -> None:
        broker = Broker("a", ResponseCode.MESSAGE_ILLEGAL)
        messages = [Message("Orders", bytes(600_000), sharding_key="k") for _ in range(6)]
        async with cluster(broker) as name_server, Producer(name_server) as producer:
            with pytest.raises(PartlySent, match="6 of 6 messages failed"):
                await producer.send_many(messages)
        assert len(broker.sent) == 1

    run(main())
