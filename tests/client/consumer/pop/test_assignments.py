"""The assignments of a member: which broker is asked, and what is done until one answers."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.client.members import settings_of
from tests.client.pops import OPTIONS, TOPIC, PopBroker, popping

from cometmq.client.consumer.pop.assignments import PopAssignments
from cometmq.client.consumer.pop.loop import PopLoop, PopSource
from cometmq.client.consumer.pop.receipts import PopReceipts
from cometmq.client.group.pop_membership import PopMembership
from cometmq.cluster.process_queue import Limits
from cometmq.io.clock import SystemClock
from cometmq.message import MessageQueue
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere, tag_subscription
from cometmq.wire.bodies.pop import AssignmentResponse, QueueAssignment, RequestMode
from cometmq.wire.codes import RequestCode, ResponseCode

QUEUE = MessageQueue(TOPIC, "b", 1)
ANY = tag_subscription(TOPIC, "*", 0)


@asynccontextmanager
async def assigned(
    *brokers: PopBroker, where: ConsumeFromWhere = ConsumeFromWhere.FIRST_OFFSET
) -> AsyncIterator[PopAssignments]:
    async with popping(*brokers) as here:
        settings = settings_of("me")._replace(name_servers=(here.name_server,), where=where)
        member = PopMembership(settings, {TOPIC: ANY})
        options = OPTIONS._replace(wait_ms=30_000)
        source = PopSource(member.requests, PopReceipts(SystemClock()), options, Limits())
        assignments = PopAssignments(
            member, settings, {TOPIC: ANY}, lambda queue: PopLoop(queue, ANY, source, lambda *_: None)
        )
        yield assignments
        assignments.request_stop()
        await assignments.stop()
        await member.leave()


def brokers(answer: AssignmentResponse | None) -> tuple[PopBroker, PopBroker]:
    both = PopBroker("a"), PopBroker("b")
    for broker in both:
        broker.assignment = answer
    return both


async def test_when_a_broker_fails_another_one_is_asked() -> None:
    both = brokers(AssignmentResponse([QueueAssignment(QUEUE, RequestMode.POP)]))
    both[0].refusals[RequestCode.QUERY_ASSIGNMENT] = [ResponseCode.SYSTEM_BUSY]
    async with assigned(*both) as assignments:
        assert await assignments.query()
        assert assignments.queues == [QUEUE]
    assert [broker.queries for broker in both] == [0, 1]


async def test_while_no_broker_answers_the_queues_stay() -> None:
    both = brokers(AssignmentResponse([QueueAssignment(QUEUE, RequestMode.POP)]))
    async with assigned(*both) as assignments:
        await assignments.query()
        for broker in both:
            broker.refusals[RequestCode.QUERY_ASSIGNMENT] = [ResponseCode.SYSTEM_BUSY]
        assert not await assignments.query()
        assert assignments.queues == [QUEUE]


async def test_a_broker_that_knows_no_assignments_hands_out_all() -> None:
    async with assigned(*brokers(None)) as assignments:
        assert await assignments.query()
        assert assignments.queues == [MessageQueue(TOPIC, name, -1) for name in "ab"]


async def test_a_broker_that_does_not_know_the_member_yet_is_asked_again() -> None:
    both = brokers(AssignmentResponse(None))
    async with assigned(*both) as assignments:
        assert not await assignments.query()
        assert assignments.queues == []


async def test_a_broker_is_popped_once_it_says_where_a_group_from_last_begins_and_others_before() -> None:
    both = brokers(None)
    both[0].refusals[RequestCode.GET_MAX_OFFSET] = [ResponseCode.SYSTEM_BUSY]
    async with assigned(*both, where=ConsumeFromWhere.LAST_OFFSET) as assignments:
        assert not await assignments.query()
        assert assignments.queues == [MessageQueue(TOPIC, "b", -1)]
        assert await assignments.query()
        assert assignments.queues == [MessageQueue(TOPIC, name, -1) for name in "ab"]
