"""When gathered messages leave, and what their senders get."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.client.brokers import Broker, cluster
from tests.live import serving

from cometmq.client import Producer
from cometmq.client.accumulator import Accumulator, Outcome
from cometmq.client.send_result import SendResult, SendStatus
from cometmq.errors import MessageIllegal, NetworkError, RemoteError
from cometmq.message import Message, MessageQueue
from cometmq.wire.codes import ResponseCode

FOREVER_MS = 3_600_000


class Sent:
    """Takes batches; a body of ``bad`` fails."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []

    async def each(self, messages: Sequence[Message]) -> list[Outcome]:
        self.batches.append([message.body for message in messages])
        if any(message.body == b"worse" for message in messages):
            raise NetworkError("nobody answers")
        return [
            RemoteError(2, "bad") if message.body == b"bad" else result_of(message) for message in messages
        ]


def result_of(message: Message) -> SendResult:
    queue = MessageQueue(message.topic, "broker-a", 0)
    return SendResult(SendStatus.SEND_OK, message.body.decode(), [], queue, 0)


def test_a_full_batch_leaves_at_once_and_the_rest_at_the_end() -> None:
    async def main() -> None:
        sent = Sent()
        accumulator = Accumulator(sent.each, FOREVER_MS, batch_bytes=1_000)
        messages = [Message("A", b"%d" % n * 300) for n in range(3)] + [Message("B", b"b")]
        sends = [asyncio.create_task(accumulator.send(message)) for message in messages]
        await asyncio.gather(*sends[:3])
        assert sent.batches == [[message.body for message in messages[:3]]]
        await accumulator.close()
        assert sent.batches[1:] == [[b"b"]]
        assert [send.result().message_id for send in sends] == [m.body.decode() for m in messages]

    asyncio.run(main())


def test_a_batch_leaves_when_its_first_message_has_waited() -> None:
    async def main() -> None:
        sent = Sent()
        accumulator = Accumulator(sent.each, 1, batch_bytes=1_000)
        await asyncio.gather(*(accumulator.send(Message("A", b"%d" % n)) for n in range(3)))
        assert sent.batches == [[b"0", b"1", b"2"]]

    asyncio.run(main())


def test_each_sender_gets_what_became_of_its_own_message() -> None:
    async def main() -> None:
        accumulator = Accumulator(Sent().each, 1, batch_bytes=1_000)
        with pytest.raises(MessageIllegal):
            await accumulator.send(Message("A", b""))
        sends = [asyncio.create_task(accumulator.send(Message("A", body))) for body in (b"bad", b"x", b"x")]
        await asyncio.sleep(0)
        sends[2].cancel()
        bad, good, given_up = await asyncio.gather(*sends, return_exceptions=True)
        assert isinstance(bad, RemoteError) and isinstance(good, SendResult)
        assert isinstance(given_up, asyncio.CancelledError)
        with pytest.raises(NetworkError, match="nobody answers"):
            await accumulator.send(Message("A", b"worse"))

    asyncio.run(main())


def test_sends_of_a_producer_share_batches_if_that_is_wanted(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as live, Producer(live.name_server, linger_ms=20) as producer:
            results = await asyncio.gather(
                *(producer.send(Message("Orders", b"%d" % n)) for n in range(50)),
                producer.send(Message("Orders", b"ordered", sharding_key="k")),
                producer.send(Message("Orders", b"late", delay_level=1)),
            )
        assert len({result.message_id for result in results}) == 52
        assert len({result.queue for result in results[:50]}) == 1

    asyncio.run(main())


def test_what_was_gathered_is_sent_before_a_producer_ends() -> None:
    async def main() -> None:
        broker = Broker("a", ResponseCode.SUCCESS)
        async with cluster(broker) as name_server:
            async with Producer(name_server, linger_ms=FOREVER_MS) as producer:
                send = asyncio.create_task(producer.send(Message("Orders", b"x")))
                await asyncio.sleep(0)
            assert (await send).status is SendStatus.SEND_OK
        assert len(broker.sent) == 1

    asyncio.run(main())
