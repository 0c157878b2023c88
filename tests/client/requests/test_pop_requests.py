"""Requests of consumers that pop, to brokers that answer by the wire's types."""

import asyncio

import pytest
from tests.client.pops import GROUP, OPTIONS, POP_TIME_MS, REVIVE_QUEUE, TOPIC, PopBroker, popping

from cometmq.client.requests.pop_requests import PopResult, PopStatus
from cometmq.cluster.assignment import ALL_QUEUES
from cometmq.errors import FormatError, NoRoute, RemoteError
from cometmq.format.pop.names import RetryFlag
from cometmq.format.pop.receipt import ReceiptHandle, parse_receipt
from cometmq.format.properties import FIRST_POP_TIME, POP_CK
from cometmq.message import MessageQueue
from cometmq.wire.bodies.heartbeat import SubscriptionData, tag_subscription
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers.pop import PopHeader

QUEUE = MessageQueue(TOPIC, "a", ALL_QUEUES)
ANY = tag_subscription(TOPIC, "*", 0)
HANDLE = ReceiptHandle(5, POP_TIME_MS, 15_000, REVIVE_QUEUE, RetryFlag.NONE, "a", 2, 7)


def handles(result: PopResult) -> list[ReceiptHandle]:
    return [parse_receipt(message.properties[POP_CK]) for message in result.messages]


async def test_a_popped_message_has_its_receipt_handle() -> None:
    broker = PopBroker()
    broker.put(b"0", b"1")
    async with popping(broker) as here:
        result = await here.requests.pop(QUEUE, ANY, OPTIONS)
    assert (result.status, [message.body for message in result.messages]) == (PopStatus.FOUND, [b"0", b"1"])
    assert result.pop_time_ms == POP_TIME_MS
    first = ReceiptHandle(-1, POP_TIME_MS, 15_000, REVIVE_QUEUE, RetryFlag.NONE, "a", 2, 0)
    assert handles(result) == [first, first._replace(offset=1)]
    assert {message.properties[FIRST_POP_TIME] for message in result.messages} == {str(POP_TIME_MS)}
    (header,) = broker.pops
    assert header == PopHeader(GROUP, TOPIC, -1, 32, 15_000, 0, 0, 0, "TAG", "*", broker_name="a")


async def test_an_ordered_pop_names_its_attempt() -> None:
    broker = PopBroker()
    broker.put(b"0")
    async with popping(broker) as here:
        await here.requests.pop(QUEUE, ANY, OPTIONS._replace(ordered=True, attempt_id="first"))
    (header,) = broker.pops
    assert header.order and header.attempt_id == "first"


async def test_messages_of_an_ordered_pop_have_the_number_of_their_earlier_pops() -> None:
    broker = PopBroker()
    broker.order_counts = "0 qo2%1 4;0 2 0"
    broker.put(b"0", b"1")
    async with popping(broker) as here:
        result = await here.requests.pop(QUEUE, ANY, OPTIONS._replace(ordered=True))
    assert [message.reconsume_times for message in result.messages] == [0, 4]
    broker.order_counts = "0 2 3"  # all messages of queue 2
    broker.put(b"2")
    async with popping(broker) as here:
        (message,) = (await here.requests.pop(QUEUE, ANY, OPTIONS._replace(ordered=True))).messages
    assert message.reconsume_times == 3


async def test_a_message_of_a_retry_topic_has_the_topic_that_it_was_sent_to() -> None:
    """The broker replaces the topic and adds the handle, or does neither: its ``popResponseReturn…``."""
    broker, given = PopBroker(), HANDLE._replace(retry_flag=RetryFlag.V2)
    broker.put(b"named", POP_CK=str(given), **{"1ST_POP_TIME": "9"})
    broker.put(b"plain")
    broker.waiting[TOPIC] += [
        one._replace(topic="%RETRY%readers_Orders") for one in broker.waiting[TOPIC][1:]
    ]
    async with popping(broker) as here:
        named, plain, retried = (result := await here.requests.pop(QUEUE, ANY, OPTIONS)).messages
    assert [one.topic for one in (named, plain, retried)] == [TOPIC] * 3
    assert named.properties[FIRST_POP_TIME] == "9"
    assert [one.retry_flag for one in handles(result)] == [RetryFlag.V2, RetryFlag.NONE, RetryFlag.V1]
    assert handles(result)[0] == given


async def test_messages_of_brokers_that_list_no_offsets_are_check_points_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    broker = PopBroker()
    broker.put(b"0", b"1")
    monkeypatch.setattr("tests.client.pops.encode_begin_offsets", lambda _: None)
    monkeypatch.setattr("tests.client.pops.encode_offsets", lambda _: None)
    async with popping(broker) as here:
        found = handles(await here.requests.pop(QUEUE, ANY, OPTIONS))
    assert [(handle.begin_offset, handle.offset) for handle in found] == [(0, 0), (1, 1)]


async def test_a_message_without_an_offset_in_the_answer_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = PopBroker()
    broker.put(b"0", b"1")
    monkeypatch.setattr("tests.client.pops.encode_offsets", lambda _: "0 2 0")
    async with popping(broker) as here:
        with pytest.raises(FormatError, match=r"no offset for message ID1, queue offset 1 .*'0 2 0'"):
            await here.requests.pop(QUEUE, ANY, OPTIONS)


async def test_messages_with_other_tags_are_unwanted_unless_the_broker_filters_by_sql() -> None:
    broker = PopBroker()
    async with popping(broker) as here:
        broker.put(b"0", tags="paid")
        broker.put(b"1", tags="lost")
        result = await here.requests.pop(QUEUE, tag_subscription(TOPIC, "paid || open", 0), OPTIONS)
        assert [one.body for one in result.messages] == [b"0"]
        assert [one.body for one in result.unwanted] == [b"1"]
        broker.put(b"2", tags="lost")
        sql = SubscriptionData(TOPIC, "a > 1", "SQL92")
        assert [one.body for one in (await here.requests.pop(QUEUE, sql, OPTIONS)).messages] == [b"2"]
    assert [(pop.exp_type, pop.exp) for pop in broker.pops] == [("TAG", "paid || open"), ("SQL92", "a > 1")]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (ResponseCode.PULL_NOT_FOUND, PopStatus.NO_MESSAGE),
        (ResponseCode.POLLING_TIMEOUT, PopStatus.NO_MESSAGE),
        (ResponseCode.POLLING_FULL, PopStatus.POLLING_FULL),
    ],
)
async def test_a_pop_without_messages_says_why(code: int, status: PopStatus) -> None:
    broker = PopBroker()
    broker.refusals[RequestCode.POP_MESSAGE] = [code]
    async with popping(broker) as here:
        assert await here.requests.pop(QUEUE, ANY, OPTIONS) == PopResult(status, [], 0, [])


async def test_a_refused_request_raises_the_brokers_code() -> None:
    broker = PopBroker()
    for code in (
        RequestCode.POP_MESSAGE,
        RequestCode.ACK_MESSAGE,
        RequestCode.BATCH_ACK_MESSAGE,
        RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    ):
        broker.refusals[code] = [ResponseCode.NO_PERMISSION]
    async with popping(broker) as here:
        for work in (
            here.requests.pop(QUEUE, ANY, OPTIONS),
            here.requests.ack(TOPIC, HANDLE),
            here.requests.ack_all(TOPIC, [HANDLE]),
            here.requests.change_invisible(TOPIC, HANDLE, 0),
        ):
            with pytest.raises(RemoteError, match="as told"):
                await work
        broker.refusals[RequestCode.ACK_MESSAGE] = [ResponseCode.NO_MESSAGE]
        with pytest.raises(RemoteError, match=r"handle '5 .* 7': the broker has no such message any more"):
            await here.requests.ack(TOPIC, HANDLE)
        with pytest.raises(NoRoute, match="'elsewhere'"):
            await here.requests.ack(TOPIC, HANDLE._replace(broker_name="elsewhere"))


async def test_an_acknowledgement_names_the_queue_that_the_message_came_from() -> None:
    broker = PopBroker()
    async with popping(broker) as here:
        await here.requests.ack(TOPIC, HANDLE)
        await here.requests.ack(TOPIC, HANDLE._replace(retry_flag=RetryFlag.V1))
    assert [(ack.topic, ack.queue_id, ack.offset) for ack in broker.acks] == [
        (TOPIC, 2, 7),
        ("%RETRY%readers_Orders", 2, 7),
    ]
    assert broker.acks[0].extra_info == str(HANDLE)


async def test_a_batch_goes_to_each_broker_with_an_entry_for_each_check_point() -> None:
    one, other = PopBroker("a"), PopBroker("b")
    async with popping(one, other) as here:
        retried = HANDLE._replace(retry_flag=RetryFlag.V1)
        far = HANDLE._replace(broker_name="b")
        await here.requests.ack_all(TOPIC, [HANDLE, HANDLE._replace(offset=5), retried, far])
    (batch,) = one.batches
    assert batch.broker_name == "a"
    assert [(entry.topic, entry.retry, entry.start_offset, entry.bit_set) for entry in batch.acks] == [
        (TOPIC, "0", 5, "BQ=="),
        (TOPIC, "1", 5, "BA=="),
    ]
    assert len(other.batches) == 1


async def test_a_batch_reaches_the_other_brokers_when_one_fails() -> None:
    one, other = PopBroker("a"), PopBroker("b")
    one.refusals[RequestCode.BATCH_ACK_MESSAGE] = [ResponseCode.SYSTEM_BUSY]
    async with popping(one, other) as here:
        with pytest.raises(RemoteError, match="as told"):
            await here.requests.ack_all(TOPIC, [HANDLE, HANDLE._replace(broker_name="b")])
    assert other.acknowledged() == {7}


async def test_a_changed_message_has_a_check_point_of_its_own() -> None:
    broker = PopBroker()
    broker.now_ms += 400
    async with popping(broker) as here:
        changed = await here.requests.change_invisible(TOPIC, HANDLE, 60_000)
        await here.requests.change_invisible(TOPIC, changed, 0, counts=False)
    assert changed == HANDLE._replace(begin_offset=7, pop_time_ms=POP_TIME_MS + 400, invisible_ms=60_000)
    first, second = broker.changes
    assert (first.extra_info, first.invisible_time, first.suspend) == (str(HANDLE), 60_000, False)
    assert (second.extra_info, second.invisible_time, second.suspend) == (str(changed), 0, True)


async def test_the_broker_may_hold_a_pop() -> None:
    broker = PopBroker()
    async with popping(broker) as here:
        pop = here.requests.pop(QUEUE, ANY, OPTIONS._replace(wait_ms=20_000, from_first=False))
        popping_task = asyncio.create_task(pop)
        await broker.is_holding.wait()
        broker.put(b"late")
        assert [one.body for one in (await popping_task).messages] == [b"late"]
    assert (broker.pops[0].poll_time, broker.pops[0].init_mode) == (20_000, 1)
