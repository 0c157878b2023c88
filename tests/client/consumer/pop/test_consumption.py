"""A push consumer that pops, with a broker that answers by the wire's types."""

import asyncio

import pytest
from tests.client.members import settled
from tests.client.pops import GROUP, POP_TIME_MS, TOPIC, PopBroker, consuming

from cometmq.client import Consumer, DeadLetter, Model, Retry, Start
from cometmq.client.consumer.pop.consumption import PopConsumption
from cometmq.errors import IllegalType, SettingsError
from cometmq.io.clock import ManualClock
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire.bodies.heartbeat import ConsumeType
from cometmq.wire.bodies.pop import AssignmentResponse, QueueAssignment, RequestMode
from cometmq.wire.codes import RequestCode, ResponseCode

QUEUE = MessageQueue(TOPIC, "a", 2)
ALL = QUEUE._replace(queue_id=-1)


async def ignore(_: object) -> None:
    """Handle a message."""


async def test_handled_messages_are_acknowledged_together() -> None:
    broker, handled = PopBroker(), list[bytes]()

    async def handle(message: StoredMessage) -> None:
        handled.append(message.body)

    broker.put(b"0", b"1", b"2")
    async with consuming(broker, handle) as consumer:
        await settled(lambda: broker.acknowledged() == {0, 1, 2})
        assert (consumer.queues, consumer.twins) == ([ALL], 0)
        broker.put(b"3")
        await settled(lambda: broker.acknowledged() == {0, 1, 2, 3})
    assert sorted(handled) == [b"0", b"1", b"2", b"3"]
    assert (broker.acks, broker.changes, broker.unregistered) == ([], [], 1)
    assert broker.heartbeats[0].consumers[0].consume_type is ConsumeType.CONSUME_POP
    assert {(pop.max_msg_nums, pop.invisible_time, pop.poll_time) for pop in broker.pops} == {
        (32, 60_000, 15_000)
    }


@pytest.mark.parametrize(
    ("error", "reconsume_times", "hidden_ms"),
    [
        (Retry(), 0, 10_000),
        (ValueError(), 3, 120_000),
        (Retry(delay_level=1), 3, 1_000),
        (Retry(delay_level=18), 0, 7_200_000),
        (ValueError(), 15, 7_200_000),
    ],
)
async def test_a_message_whose_handler_raises_is_hidden_for_a_time_that_grows(
    error: Exception, reconsume_times: int, hidden_ms: int
) -> None:
    async def fail(_: StoredMessage) -> None:
        raise error

    broker = PopBroker()
    broker.put(b"0", reconsume_times=reconsume_times)
    async with consuming(broker, fail):
        await settled(lambda: bool(broker.changes))
    (change,) = broker.changes
    assert (change.offset, change.invisible_time, change.suspend) == (0, hidden_ms, False)
    assert broker.acknowledged() == set()


@pytest.mark.parametrize(
    ("error", "reconsume_times", "limit"),
    [(DeadLetter(), 0, None), (ValueError(), 16, None), (Retry(), 2, 2)],
)
async def test_a_message_that_is_given_up_becomes_a_dead_letter(
    error: Exception, reconsume_times: int, limit: int | None
) -> None:
    async def fail(_: StoredMessage) -> None:
        raise error

    broker = PopBroker()
    broker.put(b"0", reconsume_times=reconsume_times)
    async with consuming(broker, fail, max_reconsume_times=limit):
        await settled(lambda: broker.acknowledged() == {0})
    (letter,) = broker.sent_back
    assert (letter.physical_offset, letter.delay_level, letter.origin_topic) == (0, -1, TOPIC)
    assert broker.changes == []


async def test_a_message_that_cannot_be_a_dead_letter_comes_again(caplog: pytest.LogCaptureFixture) -> None:
    async def fail(_: StoredMessage) -> None:
        raise DeadLetter

    broker = PopBroker()
    broker.put(b"0")
    broker.refusals[RequestCode.CONSUMER_SEND_MSG_BACK] = [ResponseCode.SYSTEM_BUSY]
    async with consuming(broker, fail):
        await settled(lambda: "no dead letter" in caplog.text)
    assert broker.acknowledged() == set()


async def test_a_message_that_was_handled_too_late_is_not_acknowledged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, broker = ManualClock(POP_TIME_MS), PopBroker()

    async def handle(_: StoredMessage) -> None:
        clock.advance(60_000)

    broker.put(b"0")
    async with consuming(broker, handle, clock=clock):
        await settled(lambda: "handled too late" in caplog.text)
    assert all(not batch.acks for batch in broker.batches)


async def test_messages_that_wait_too_long_are_not_handled(caplog: pytest.LogCaptureFixture) -> None:
    clock, broker, handled = ManualClock(POP_TIME_MS), PopBroker(), list[bytes]()

    async def handle(message: StoredMessage) -> None:
        handled.append(message.body)
        clock.advance(60_000)

    broker.put(b"0", b"1")
    async with consuming(broker, handle, clock=clock, max_concurrency=1):
        await settled(lambda: "not handled in time" in caplog.text)
    assert handled == [b"0"]
    assert broker.acknowledged() == set()


async def test_a_stop_waits_for_handlers_and_hands_back_what_none_has_begun() -> None:
    broker, begun, may_end = PopBroker(), asyncio.Event(), asyncio.Event()

    async def handle(_: StoredMessage) -> None:
        begun.set()
        await may_end.wait()

    broker.put(b"0", b"1", b"2")
    async with consuming(broker, handle, max_concurrency=1) as consumer:
        await begun.wait()
        stopping = asyncio.create_task(consumer.stop())
        await asyncio.sleep(0)
        may_end.set()
        await stopping
    assert broker.acknowledged() == {0}
    assert {(change.offset, change.invisible_time, change.suspend) for change in broker.changes} == {
        (1, 0, True),
        (2, 0, True),
    }
    assert broker.unregistered == 1


async def test_no_more_is_popped_while_many_messages_wait() -> None:
    broker, may_end = PopBroker(), asyncio.Event()

    async def handle(_: StoredMessage) -> None:
        await may_end.wait()

    broker.put(*[b"x"] * 200)
    async with consuming(broker, handle):
        await settled(lambda: len(broker.waiting[TOPIC]) == 200 - 96)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(broker.waiting[TOPIC]) == 200 - 96
        may_end.set()
        await settled(lambda: len(broker.acknowledged()) == 200)


async def test_a_batch_succeeds_or_fails_together() -> None:
    async def handle(messages: list[StoredMessage]) -> None:
        if messages[0].body == b"0":
            raise Retry

    broker = PopBroker()
    broker.put(b"0", b"1", b"2", b"3")
    async with consuming(broker, handle, batch_size=2):
        await settled(lambda: broker.acknowledged() == {2, 3} and len(broker.changes) == 2)


@pytest.mark.parametrize(
    ("answer", "queues"),
    [
        ([QueueAssignment(QUEUE, RequestMode.POP)], [QUEUE]),
        ([QueueAssignment(QUEUE, RequestMode.PULL)], [ALL]),
        ([], [ALL]),  # the share for pulls of a member more than there are queues
    ],
)
async def test_the_broker_assigns_queues_and_without_a_mode_all_are_popped(
    answer: list[QueueAssignment], queues: list[MessageQueue]
) -> None:
    broker = PopBroker()
    broker.assignment = AssignmentResponse(answer)
    async with consuming(broker, ignore) as consumer:
        await settled(lambda: consumer.queues == queues)
        await settled(lambda: [pop.queue_id for pop in broker.pops] == [one.queue_id for one in queues])


async def test_assignments_change_while_the_consumer_runs() -> None:
    broker, changes = PopBroker(), list[list[MessageQueue]]()
    broker.assignment = AssignmentResponse([QueueAssignment(QUEUE, RequestMode.POP)])
    async with consuming(broker, ignore, on_rebalance=changes.append) as consumer:
        await settled(lambda: consumer.queues == [QUEUE])
        assert isinstance(consumer._running, PopConsumption)
        broker.assignment = AssignmentResponse(None)  # keep what you have
        consumer._running._query_soon()  # as when a member comes
        await settled(lambda: broker.queries == 2)
        broker.assignment = AssignmentResponse([QueueAssignment(ALL, RequestMode.POP)])
        consumer._running._query_soon()
        await settled(lambda: consumer.queues == [ALL])
        consumer.unsubscribe(TOPIC)
        await settled(lambda: consumer.queues == [])
    assert changes == [[QUEUE], [ALL], [], []]


def test_what_pops_cannot_do_is_refused() -> None:
    with pytest.raises(SettingsError, match="pop=True"):
        Consumer("127.0.0.1:1", GROUP, pop=True, model=Model.BROADCASTING)
    with pytest.raises(SettingsError, match="pop=True"):
        Consumer("127.0.0.1:1", GROUP, pop=True, start=Start.at(1))
    with pytest.raises(SettingsError, match="'Orders' cannot be ordered"):
        Consumer("127.0.0.1:1", GROUP, pop=True).subscribe(TOPIC, ignore, ordered=True)
    with pytest.raises(IllegalType, match=r"^pop "):
        Consumer("127.0.0.1:1", GROUP, pop="yes")  # type: ignore[arg-type]  # a program without types
