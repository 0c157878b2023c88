"""No answer says or implies that a topic exists before the name servers know it."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import pytest
from tests.broker.conftest import SYNC, Bench, Client, send_header, serving

from cometmq.broker.name_servers import registration
from cometmq.broker.name_servers.registration import NameServers
from cometmq.broker.settings import BrokerSettings
from cometmq.namesrv.name_server import NameServer
from cometmq.net.server import Session
from cometmq.wire import headers
from cometmq.wire.bodies import ConsumerData, Heartbeat
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

Answer: TypeAlias = "asyncio.Future[Command]"
SEND = RequestCode.SEND_MESSAGE_V2


class SlowNameServer(NameServer):
    """A name server that answers when it is let."""

    def __init__(self) -> None:
        super().__init__(port=0)
        self.is_held = False
        self.asked = asyncio.Event()
        self._kept: list[tuple[Session, list[Command]]] = []

    def handle(self, session: Session, commands: list[Command]) -> None:
        if self.is_held:
            self._kept.append((session, commands))
            self.asked.set()
        else:
            super().handle(session, commands)

    def release(self) -> None:
        self.is_held = False
        kept, self._kept = self._kept, []
        for session, commands in kept:
            super().handle(session, commands)


class Scene(NamedTuple):
    """A broker, and the name server that it registers with."""

    bench: Bench
    server: SlowNameServer
    name_servers: NameServers

    def route_exists(self, topic: str) -> bool:
        return self.server.routes.route(topic) is not None


@asynccontextmanager
async def registered(root: Path, store: dict[str, Any] | None = None) -> AsyncIterator[Scene]:
    server = SlowNameServer()
    await server.start()
    async with serving(root, store) as bench:
        settings = BrokerSettings.of(broker_name="broker-a", namesrv_addr=server.address)
        name_servers = NameServers(bench.parts.topics, settings, bench.address)
        name_servers.begin()
        await name_servers.wait_known()
        try:
            yield Scene(bench, server, name_servers)
        finally:
            server.release()
            await name_servers.stop()
            await server.stop()


def send(client: Client, topic: str, queue_id: int = 0, **named: str) -> Answer:
    return client.ask_later(SEND, send_header(topic, queue_id, **named), b"body")


def beat(bench: Bench, *groups: str) -> Answer:
    body = Heartbeat("c", consumers=[ConsumerData(group) for group in groups])
    return bench.ask_later(RequestCode.HEART_BEAT, body=body)


def create(bench: Bench, topic: str, queues: int = 4) -> Answer:
    header = headers.CreateTopicHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_count=queues,
        write_queue_count=queues,
        perm=6,
        filter_type="SINGLE_TAG",
        order=False,
    )
    return bench.ask_later(RequestCode.UPDATE_AND_CREATE_TOPIC, header)


def delete(bench: Bench) -> Answer:
    return bench.ask_later(RequestCode.DELETE_TOPIC_IN_BROKER, headers.TopicHeader("Old"))


def send_back(bench: Bench, level: int) -> Answer:
    header = headers.SendBackHeader(0, "cg", level)
    return bench.ask_later(RequestCode.CONSUMER_SEND_MSG_BACK, header)


CAUSES: dict[str, tuple[Callable[[Bench], Answer], str]] = {
    "send": (lambda bench: send(bench, "New"), "New"),
    "heartbeat": (lambda bench: beat(bench, "cg"), "%RETRY%cg"),
    "send-back": (lambda bench: send_back(bench, 0), "%RETRY%cg"),
    "dead letter": (lambda bench: send_back(bench, -1), "%DLQ%cg"),
    "a consumer's own retry": (lambda bench: send(bench, "%RETRY%cg"), "%RETRY%cg"),
    "create": (lambda bench: create(bench, "New"), "New"),
}


async def answered_last(scene: Scene, answer: Answer) -> Command:
    """Release the name server's answer; return an answer that must not have come before."""
    async with asyncio.timeout(60):
        await scene.server.asked.wait()
        for n in range(5):  # others are not held up, be it in the same turn or later
            assert (await scene.bench.send("Old", b"%d" % n)).code == ResponseCode.SUCCESS
        assert not answer.done()
        scene.server.release()
        return await answer


@pytest.mark.parametrize("cause", CAUSES)
@pytest.mark.parametrize("store", [{}, SYNC], ids=["async", "sync"])
async def test_who_makes_a_topic_is_answered_when_its_route_is_there(
    tmp_path: Path, cause: str, store: dict[str, Any]
) -> None:
    """RocketMQ waits for all name servers, too; Go consumers fail for good where a route is missing."""
    act, topic = CAUSES[cause]
    async with registered(tmp_path, store) as scene:
        await scene.bench.send("Old")
        scene.server.is_held = True
        answer = act(scene.bench)
        assert (await answered_last(scene, answer)).code == ResponseCode.SUCCESS
        assert scene.route_exists(topic)


async def test_all_who_rely_on_a_topic_wait_until_its_route_is_there(tmp_path: Path) -> None:
    async with registered(tmp_path) as scene:
        bench = scene.bench
        await bench.send("Old")
        other = await Client.open(bench.address)
        scene.server.is_held = True
        answers = [send(bench, "New"), beat(bench, "cg"), send(bench, "New"), send(bench, "New", 1)]
        await scene.server.asked.wait()
        answers += [send(other, "New"), send(other, "New", 2), beat(bench, "cg"), create(bench, "New")]
        assert (await other.send("Old")).code == ResponseCode.SUCCESS
        assert not any(answer.done() for answer in answers)
        scene.server.release()
        for answer in answers:
            assert (await answer).code == ResponseCode.SUCCESS
        offsets = [(await answers[n]).ext_fields["queueOffset"] for n in (0, 2, 3, 4, 5)]
        assert offsets == ["0", "1", "0", "2", "0"], "the sends of a connection keep their order"
        await other.connection.close()


async def test_an_update_and_a_deletion_are_answered_when_the_name_servers_know(tmp_path: Path) -> None:
    async with registered(tmp_path) as scene:
        await scene.bench.send("Old")
        for act in (lambda bench: create(bench, "Old", 7), delete):
            scene.server.is_held = True
            answer = act(scene.bench)
            await scene.server.asked.wait()
            await scene.bench.ask(RequestCode.GET_BROKER_CONFIG)
            assert not answer.done()
            scene.server.release()
            assert (await answer).code == ResponseCode.SUCCESS
            scene.server.asked.clear()
            route = scene.server.routes.route("Old")  # RocketMQ's name servers keep what a broker deletes
            assert route is not None and route.queues[0].write_queue_count == 7


async def test_after_a_restart_nobody_is_answered_before_the_broker_is_registered(tmp_path: Path) -> None:
    async with registered(tmp_path) as scene:
        await scene.bench.send("Old")
    server = SlowNameServer()
    server.is_held = True
    await server.start()
    async with serving(tmp_path) as bench:
        settings = BrokerSettings.of(broker_name="broker-a", namesrv_addr=server.address)
        name_servers = NameServers(bench.parts.topics, settings, bench.address)
        name_servers.begin()
        answer = send(bench, "Old")
        await server.asked.wait()
        assert (await bench.ask(RequestCode.GET_BROKER_CONFIG)).code == ResponseCode.SUCCESS
        assert not answer.done()
        server.release()
        assert (await answer).code == ResponseCode.SUCCESS
        assert server.routes.route("Old") is not None
        await name_servers.stop()
    await server.stop()


async def test_a_name_server_that_does_not_answer_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with registered(tmp_path) as scene:
        scene.server.is_held = True
        monkeypatch.setattr(registration, "INFORM_WAIT_S", 0.05)
        assert (await scene.bench.send("New0")).code == ResponseCode.SUCCESS
        monkeypatch.setattr(registration, "INFORM_WAIT_S", 3_600)
        assert (await scene.bench.send("New1")).code == ResponseCode.SUCCESS
        scene.server.release()
        assert (await scene.bench.send("New2")).code == ResponseCode.SUCCESS
        async with asyncio.timeout(60):
            while not scene.route_exists("New2"):
                await scene.bench.send("New2")
        scene.server.is_held = True
        scene.server.asked.clear()
        answer = send(scene.bench, "New3")
        await scene.server.asked.wait()
        await scene.bench.send("New2")
        assert not answer.done(), "it is waited for again"
