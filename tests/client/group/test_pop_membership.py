"""A member that pops: what brokers hear of it, and what it answers to them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.client.members import settings_of, settled
from tests.client.pops import TOPIC, PopBroker, popping

from cometmq.client.group.pop_membership import PopMembership
from cometmq.errors import NetworkError
from cometmq.net.server import Session
from cometmq.wire.bodies.body import decode
from cometmq.wire.bodies.heartbeat import ConsumeType, SubscriptionData, tag_subscription
from cometmq.wire.bodies.running import RunningInfo
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

ANY = tag_subscription(TOPIC, "*", 1)


class AskingBroker(PopBroker):
    """A broker that sends requests to the client of its last heartbeat."""

    def __init__(self) -> None:
        super().__init__()
        self.session: Session | None = None
        self.answers: asyncio.Queue[Command] = asyncio.Queue()

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            if command.is_response:
                self.answers.put_nowait(command)
            else:
                self.session = session
                super().handle(session, [command])

    async def ask(self, code: int) -> Command:
        assert self.session is not None
        self.session.send(Command(code, ext_fields={}))
        return await self.answers.get()


@asynccontextmanager
async def member(
    broker: PopBroker, subscriptions: dict[str, SubscriptionData]
) -> AsyncIterator[tuple[PopMembership, list[str]]]:
    changes: list[str] = []
    async with popping(broker) as here:
        settings = settings_of("me")._replace(
            name_servers=(here.name_server,), consume_type=ConsumeType.CONSUME_POP
        )
        joined = PopMembership(settings, subscriptions, on_change=lambda: changes.append("changed"))
        await joined.start()
        yield joined, changes
        await joined.leave()


async def test_a_member_is_registered_with_its_subscriptions_and_leaves() -> None:
    broker, subscriptions = PopBroker(), {TOPIC: ANY}
    async with member(broker, subscriptions) as (joined, _):
        await joined.subscribe({"Bills": tag_subscription("Bills", "paid", 2)})
        await settled(lambda: broker.topics() == {"Bills"})
    first = broker.heartbeats[0].consumers[0]
    assert first.consume_type is ConsumeType.CONSUME_POP
    assert [one.topic for one in first.subscriptions] == [TOPIC]
    assert broker.unregistered == 1


async def test_operators_can_look_at_a_member_and_other_requests_are_refused() -> None:
    broker = AskingBroker()
    async with member(broker, {TOPIC: ANY}) as (_, changes):
        info = decode(RunningInfo, (await broker.ask(RequestCode.GET_CONSUMER_RUNNING_INFO)).body)
        assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_POP"
        assert [one.topic for one in info.subscriptions] == [TOPIC]
        direct = await broker.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY)
        assert direct.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        before = len(changes)
        assert broker.session is not None
        broker.session.send(Command(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, ext_fields={}))
        await settled(lambda: len(changes) > before)


async def test_a_broker_gets_a_heartbeat_at_once_on_a_new_connection() -> None:
    broker = AskingBroker()
    async with member(broker, {TOPIC: ANY}) as (joined, changes):
        address = await joined.routes.master((await joined.routes.get(TOPIC)).publish_queues()[0])
        (await joined.connections.connect(address)).abort("the broker was killed")
        before = len(broker.heartbeats), len(changes)
        await joined.connections.connect(address)
        async with asyncio.timeout(60):
            while len(broker.heartbeats) == before[0]:  # noqa: ASYNC110  it tells no event
                await asyncio.sleep(0.001)
        assert len(changes) > before[1]


async def test_a_start_that_fails_leaves_nothing_open() -> None:
    settings = settings_of("me")._replace(name_servers=("127.0.0.1:1",), start_timeout_ms=0)
    joined = PopMembership(settings, {TOPIC: ANY})
    with pytest.raises(NetworkError):
        await joined.start()
    assert joined.connections.is_closed
    await joined.wait()
