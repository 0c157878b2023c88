"""Pops of several topics and brokers in turn."""

import asyncio
from collections import Counter

import pytest
from tests.client.members import settings_of
from tests.client.pops import GROUP, OPTIONS, TOPIC, Client, PopBroker, popping

from cometmq.client.consumer.pop.receipts import PopReceipts
from cometmq.client.consumer.pop.turns import PopTurns
from cometmq.client.group.start_offsets import StartOffsets
from cometmq.client.routes import Routes
from cometmq.cluster.route import Route
from cometmq.errors import NetworkError, NoRoute, RemoteError
from cometmq.io.clock import SystemClock
from cometmq.net.client import Connections
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere, tag_subscription
from cometmq.wire.codes import RequestCode, ResponseCode

BOTH = {topic: tag_subscription(topic, "*", 0) for topic in (TOPIC, "Bills")}
ONE = {TOPIC: BOTH[TOPIC]}
WAITING = OPTIONS._replace(wait_ms=30_000)


def turns(
    here: Client, routes: Routes | None = None, where: ConsumeFromWhere = ConsumeFromWhere.FIRST_OFFSET
) -> PopTurns:
    starts = StartOffsets(here.offsets, settings_of("me")._replace(where=where))
    return PopTurns(here.requests, routes or here.routes, starts, PopReceipts(SystemClock()))


def from_last(here: Client) -> PopTurns:
    return turns(here, where=ConsumeFromWhere.LAST_OFFSET)


async def test_each_broker_of_each_topic_has_its_turn() -> None:
    brokers = [PopBroker("a"), PopBroker("b")]
    for broker in brokers:
        for topic in BOTH:
            broker.put(b"0", b"1", b"2", topic=topic)
    async with popping(*brokers) as here:
        pops, found = turns(here), []
        for _ in range(8):
            found += await pops.pop(BOTH, OPTIONS._replace(max_count=1))
    assert Counter(message.topic for message in found) == {TOPIC: 4, "Bills": 4}
    assert [len(broker.pops) for broker in brokers] == [4, 4], "no request was for nothing"


async def test_a_busy_broker_has_no_more_than_its_turn_beside_an_empty_one() -> None:
    brokers = [PopBroker(name) for name in "abc"]
    for broker in brokers[1:]:
        broker.put(*(b"%d" % number for number in range(10)))
    async with popping(*brokers) as here:
        pops = turns(here)
        for _ in range(8):
            assert len(await pops.pop(ONE, OPTIONS._replace(max_count=1))) == 1
    assert [len(broker.waiting[TOPIC]) for broker in brokers] == [0, 6, 6]


async def test_one_broker_is_waited_at_by_one_request() -> None:
    broker = PopBroker()
    async with popping(broker) as here:
        popping_task = asyncio.create_task(turns(here).pop(ONE, WAITING))
        await broker.is_holding.wait()
        broker.put(b"late")
        assert [message.body for message in await popping_task] == [b"late"]
    assert [pop.poll_time for pop in broker.pops] == [30_000]


async def test_all_brokers_are_asked_before_one_is_waited_at_and_one_request_waits_at_a_time() -> None:
    brokers = [PopBroker("a"), PopBroker("b")]
    async with popping(*brokers) as here:
        popping_task = asyncio.create_task(turns(here).pop(ONE, WAITING))
        await brokers[0].is_holding.wait()
        assert [[pop.poll_time for pop in broker.pops] for broker in brokers] == [[0, 15_000], [0]]
        brokers[0].put(b"late")
        assert [message.body for message in await popping_task] == [b"late"]
    assert brokers[1].held == []


async def test_without_a_wait_nothing_is_waited_for() -> None:
    brokers = [PopBroker("a"), PopBroker("b")]
    async with popping(*brokers) as here:
        assert await turns(here).pop(ONE, OPTIONS) == []
    assert [[pop.poll_time for pop in broker.pops] for broker in brokers] == [[0], [0]]


async def test_a_broker_that_fails_is_passed_over_and_only_all_of_them_are_an_error() -> None:
    brokers = [PopBroker("a"), PopBroker("b")]
    brokers[0].refusals[RequestCode.POP_MESSAGE] = [ResponseCode.SYSTEM_BUSY] * 3
    async with popping(*brokers) as here:
        pops = turns(here)
        assert await pops.pop(ONE, OPTIONS) == []
        brokers[1].put(b"found")
        assert [message.body for message in await pops.pop(ONE, OPTIONS)] == [b"found"]
        brokers[1].refusals[RequestCode.POP_MESSAGE] = [ResponseCode.NO_PERMISSION]
        with pytest.raises(RemoteError, match="as told"):
            await pops.pop(ONE, WAITING)


async def test_a_broker_that_holds_too_many_pops_is_not_asked_again_at_once() -> None:
    broker = PopBroker()
    broker.refusals[RequestCode.POP_MESSAGE] = [ResponseCode.POLLING_FULL]
    async with popping(broker) as here:
        now = asyncio.get_running_loop().time
        began = now()
        assert await turns(here).pop(ONE, OPTIONS._replace(wait_ms=50)) == []
        assert now() - began >= 0.045


async def test_messages_with_unwanted_tags_are_acknowledged_for_nobody_wants_them() -> None:
    broker = PopBroker()
    broker.put(b"0", tags="lost")
    broker.put(b"1", tags="paid")
    wanted = {TOPIC: tag_subscription(TOPIC, "paid", 0)}
    async with popping(broker) as here:
        assert [message.body for message in await turns(here).pop(wanted, OPTIONS)] == [b"1"]
        broker.put(b"2", tags="lost")
        broker.refusals[RequestCode.BATCH_ACK_MESSAGE] = [ResponseCode.SYSTEM_BUSY]
        assert await turns(here).pop(wanted, OPTIONS) == [], "it is tried again when the message returns"
    assert broker.acknowledged() == {0}


async def test_a_topic_without_a_route_is_passed_over_and_only_all_of_them_are_an_error() -> None:
    class SomeRoutes(Routes):
        async def get(self, topic: str) -> Route:
            if topic == "Bills":
                raise NoRoute("no route for topic 'Bills'")
            return await super().get(topic)

    broker = PopBroker()
    broker.put(b"0")
    async with popping(broker) as here:
        connections = Connections()
        routes = SomeRoutes(connections, [here.name_server])
        pops = turns(here, routes)
        assert len(await pops.pop(BOTH, OPTIONS)) == 1
        with pytest.raises(NoRoute, match="Bills"):
            await pops.pop({"Bills": BOTH["Bills"]}, OPTIONS)
        await connections.close()
    with pytest.raises(NetworkError):
        await pops.pop(BOTH, OPTIONS)
    assert broker.pops[0].consumer_group == GROUP


async def test_a_broker_is_popped_once_the_start_offsets_of_a_group_from_last_are_committed_there() -> None:
    brokers = [PopBroker("a"), PopBroker("b")]
    brokers[1].refusals[RequestCode.GET_MAX_OFFSET] = [ResponseCode.SYSTEM_BUSY]
    brokers[1].put(b"0")
    async with popping(*brokers) as here:
        pops = from_last(here)
        assert await pops.pop(ONE, OPTIONS) == []
        assert (brokers[1].pops, len(brokers[0].committed)) == ([], 2)
        assert len(await pops.pop(ONE, WAITING)) == 1
        assert len(brokers[1].committed) == 2


async def test_a_broker_that_does_not_answer_where_a_group_begins_delays_no_other() -> None:
    brokers = [PopBroker("a"), PopBroker("b")]
    brokers[0].unanswered.add(RequestCode.GET_MAX_OFFSET)
    brokers[1].put(b"0", b"1")
    async with popping(*brokers) as here:
        pops = from_last(here)
        for _ in range(2):
            assert len(await pops.pop(ONE, WAITING._replace(max_count=1))) == 1


async def test_where_no_broker_says_where_a_group_begins_that_is_an_error() -> None:
    brokers = [PopBroker("a"), PopBroker("b")]
    for broker in brokers:
        broker.refusals[RequestCode.GET_MAX_OFFSET] = [ResponseCode.SYSTEM_BUSY] * 2
    async with popping(*brokers) as here:
        with pytest.raises(RemoteError, match="as told"):
            await from_last(here).pop(ONE, OPTIONS)
    assert [broker.pops for broker in brokers] == [[], []]
