"""When gathered messages leave, and what their senders get."""

import asyncio
from itertools import count

import pytest
from tests.client.brokers import Broker, cluster

from cometmq.client import Producer
from cometmq.client.producer import outgoing
from cometmq.client.producer.accumulator import Accumulator
from cometmq.client.producer.outgoing import Outgoing
from cometmq.client.producer.send_result import SendResult, SendStatus
from cometmq.errors import MessageIllegal, NetworkError
from cometmq.message import Message, MessageQueue
from cometmq.wire import batch
from cometmq.wire.codes import ResponseCode

FOREVER_MS = 3_600_000


class Sent:
    """Receives what is ready; a batch with a body of ``bad`` fails."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.ids: list[str] = []

    async def send(self, ready: Outgoing) -> SendResult:
        bodies = [one.body for one in batch.decode(ready.body)] if ready.is_batch else [ready.body]
        self.batches.append(bodies)
        self.ids += ready.message_ids
        if b"bad" in bodies:
            raise NetworkError("nobody answers")
        queue = MessageQueue(ready.topic, "broker-a", 0)
        places = [f"at {body.decode()}" for body in bodies]
        return SendResult(SendStatus.SEND_OK, ready.message_id, ",".join(places), queue, 7)

    def accumulator(self, linger_ms: int, batch_bytes: int = 1_000) -> Accumulator:
        numbers = count()
        return Accumulator(self.send, lambda: f"id{next(numbers)}", outgoing.single, linger_ms, batch_bytes)


async def test_a_full_batch_leaves_at_once_and_the_rest_at_the_end() -> None:
    sent = Sent()
    accumulator = sent.accumulator(FOREVER_MS)
    messages = [Message("A", b"%d" % n * 300) for n in range(4)] + [Message("B", b"b")]
    sends = [accumulator.add(message) for message in messages]
    await asyncio.gather(*sends[:2])
    assert sent.batches == [[message.body for message in messages[:2]]]
    await accumulator.close()
    assert sent.batches[1:] == [[message.body for message in messages[2:4]], [b"b"]]
    assert [send.result().message_id for send in sends] == sent.ids


async def test_a_message_as_large_as_a_batch_leaves_at_once() -> None:
    sent = Sent()
    accumulator = sent.accumulator(FOREVER_MS)
    small, large = accumulator.add(Message("A", b"small")), accumulator.add(Message("A", b"l" * 1_000))
    await asyncio.gather(small, large)
    assert sent.batches == [[b"small"], [b"l" * 1_000]]


async def test_a_batch_leaves_when_its_first_message_has_waited() -> None:
    sent = Sent()
    accumulator = sent.accumulator(1)
    results = await asyncio.gather(*(accumulator.add(Message("A", b"%d" % n)) for n in range(3)))
    assert sent.batches == [[b"0", b"1", b"2"]]
    assert [(one.offset_ids, one.queue_offset) for one in results] == [([f"at {n}"], 7 + n) for n in range(3)]


async def test_a_message_that_breaks_a_limit_spoils_no_batch() -> None:
    sent = Sent()
    accumulator = sent.accumulator(1)
    good = accumulator.add(Message("A", b"good"))
    with pytest.raises(MessageIllegal):
        accumulator.add(Message("A", b""))
    await good
    assert sent.batches == [[b"good"]]


@pytest.mark.parametrize("bodies", [[b"bad"], [b"x", b"bad", b"x"]])
async def test_all_of_a_batch_that_fails_are_told_but_for_who_has_given_up(bodies: list[bytes]) -> None:
    accumulator = Sent().accumulator(1)
    given_up = accumulator.add(Message("A", b"x"))
    answers = [accumulator.add(Message("A", body)) for body in bodies]
    given_up.cancel()
    told = await asyncio.gather(*answers, return_exceptions=True)
    assert all(isinstance(one, NetworkError) for one in told)
    assert given_up.cancelled()


async def test_who_has_given_up_keeps_nobody_from_the_results() -> None:
    sent = Sent()
    accumulator = sent.accumulator(1)
    given_up, waits = accumulator.add(Message("A", b"x")), accumulator.add(Message("A", b"y"))
    given_up.cancel()
    assert (await waits).offset_id == "at y"
    assert sent.batches == [[b"x", b"y"]]


async def test_what_was_gathered_is_sent_before_a_producer_ends() -> None:
    broker = Broker("a", ResponseCode.SUCCESS)
    async with cluster(broker) as name_server:
        async with Producer(name_server, linger_ms=FOREVER_MS) as producer:
            send = asyncio.create_task(producer.send(Message("Orders", b"x")))
            await asyncio.sleep(0)
        assert (await send).status is SendStatus.SEND_OK
    assert len(broker.sent) == 1


async def test_who_waits_is_told_also_of_errors_that_nobody_thought_of() -> None:
    async def send(_: Outgoing) -> SendResult:
        raise KeyError("a bug")

    accumulator = Accumulator(send, lambda: "id", outgoing.single, 1, 1_000)
    with pytest.raises(KeyError):
        await accumulator.add(Message("A", b"x"))


async def test_who_waits_is_told_when_the_end_of_its_producer_is_cancelled() -> None:
    broker = Broker("a", None)
    async with cluster(broker) as name_server:
        producer = await Producer(name_server, linger_ms=0, timeout_ms=3_600_000).__aenter__()
        waits = asyncio.create_task(producer.send(Message("Orders", b"x")))
        await broker.silent.wait()
        ending = asyncio.create_task(producer.__aexit__())
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending
        with pytest.raises(NetworkError, match="may be stored nevertheless"):
            await waits
        with pytest.raises(NetworkError, match="this client is closed"):
            await producer.send_oneway(Message("Orders", b"x"))
