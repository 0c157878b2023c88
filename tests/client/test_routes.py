"""Routes: asked of the name servers, remembered, used on while no name server answers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.live import serving

from cometmq.client.routes import GONE_S, REFRESH_S, RETRY_S, Routes
from cometmq.errors import FormatError, NetworkError, NoRoute, RemoteError, WrongServer
from cometmq.net.address import free_port
from cometmq.net.client import Connections
from cometmq.net.server import Server, Session
from cometmq.wire.bodies.body import encode
from cometmq.wire.bodies.route import BrokerData, QueueData, TopicRoute
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import GetRouteHeader, parse


class FakeNameServer:
    """Answers what its test says, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.known: dict[str, TopicRoute] = {}
        self.code: int = ResponseCode.TOPIC_NOT_EXIST
        self.hold: asyncio.Event | None = None
        self.asked_once = asyncio.Event()
        self._answers: set[asyncio.Task[None]] = set()

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            assert command.code == RequestCode.GET_ROUTEINFO_BY_TOPIC
            task = asyncio.get_running_loop().create_task(self._answer(session, command))
            self._answers.add(task)
            task.add_done_callback(self._answers.discard)

    async def _answer(self, session: Session, command: Command) -> None:
        topic = parse(GetRouteHeader, command.ext_fields).topic
        self.asked.append(topic)
        self.asked_once.set()
        if self.hold is not None:
            await self.hold.wait()
        route = self.known.get(topic)
        body = b"" if route is None else encode(route)
        session.send(response(command, self.code if route is None else 0, "says so", body=body))

    def closed(self, session: Session) -> None:
        pass


def on_broker(name: str, *, queues: int = 4, perm: int = 6) -> TopicRoute:
    data = QueueData(broker_name=name, read_queue_count=queues, write_queue_count=queues, perm=perm)
    broker = BrokerData(broker_name=name, cluster="c", addrs={0: f"10.0.0.1:{len(name)}"})
    return TopicRoute(queues=[data], brokers=[broker])


@asynccontextmanager
async def listening(handler: FakeNameServer, port: int = 0) -> AsyncIterator[str]:
    server = Server(handler)
    port = await server.start("127.0.0.1", port)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop()


@asynccontextmanager
async def routes_by(*name_servers: str, gone_s: float = 0.0) -> AsyncIterator[Routes]:
    connections = Connections()
    try:
        yield Routes(connections, name_servers, gone_s=gone_s)
    finally:
        await connections.close()


def turn_clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Provide a clock of the loop that can be turned forward."""
    loop = asyncio.get_running_loop()
    ahead = [0.0]
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + ahead[0])

    def turn(seconds: float) -> None:
        ahead[0] += seconds

    return turn


async def test_a_route_is_asked_for_once_and_again_when_it_is_old(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = turn_clock(monkeypatch)
    server = FakeNameServer()
    server.known["Orders"] = on_broker("a")
    async with listening(server) as address, routes_by(address) as routes:
        first = await routes.get("Orders")
        assert [queue.queue_id for queue in first.publish_queues()] == [0, 1, 2, 3]
        assert await routes.get("Orders") is first
        assert server.asked == ["Orders"]
        server.known["Orders"] = on_broker("bb")
        turn(REFRESH_S)
        assert (await routes.get("Orders")).master("bb") == "10.0.0.1:2"


async def test_a_route_of_more_queues_than_a_client_can_hold_is_refused_and_logged_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    turn = turn_clock(monkeypatch)
    server = FakeNameServer()
    server.known["Orders"] = on_broker("a", queues=2**31 - 1)
    async with listening(server) as address, routes_by(address) as routes:
        for _ in range(2):
            with pytest.raises(FormatError, match="2147483647 queues to read on broker 'a'"):
                await routes.get("Orders")
        server.known["Orders"] = on_broker("a")
        known = await routes.get("Orders")
        server.known["Orders"] = on_broker("a", queues=65_536)
        turn(REFRESH_S)
        for _ in range(2):
            assert await routes.get("Orders") is known
            turn(RETRY_S)
    first, second = (record.getMessage() for record in caplog.records)
    assert "'Orders'" in first and "2147483647" in first and "65536" in second


async def test_a_route_without_a_master_is_asked_for_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = turn_clock(monkeypatch)
    server = FakeNameServer()
    elected = on_broker("a")
    slave = BrokerData(broker_name="a", cluster="c", addrs={1: "10.0.0.1:1"})
    server.known["Orders"] = TopicRoute(queues=elected.queues, brokers=[slave])
    async with listening(server) as address, routes_by(address) as routes:
        assert (await routes.get("Orders")).master("a") is None
        server.known["Orders"] = elected
        assert (await routes.get("Orders")).master("a") is None, "it is not asked for by each send"
        turn(RETRY_S)
        assert (await routes.get("Orders")).master("a") == "10.0.0.1:1"


async def test_all_who_want_a_route_at_once_share_one_request() -> None:
    server = FakeNameServer()
    server.known["Orders"] = on_broker("a")
    server.hold = asyncio.Event()
    async with listening(server) as address, routes_by(address) as routes:
        gives_up = asyncio.create_task(routes.get("Orders"))
        others = [asyncio.create_task(routes.get("Orders")) for _ in range(50)]
        await server.asked_once.wait()
        gives_up.cancel()
        server.hold.set()
        assert len({id(route) for route in await asyncio.gather(*others)}) == 1
        assert server.asked == ["Orders"]


async def test_a_topic_without_a_route_is_told_with_the_name_servers_words() -> None:
    server = FakeNameServer()
    async with listening(server) as address, routes_by(address) as routes:
        with pytest.raises(NoRoute, match=f"no route for topic 'Orders': name server {address} says"):
            await routes.get("Orders")
        server.known["Orders"] = on_broker("a")
        assert (await routes.get("Orders")).topic == "Orders"


async def test_a_name_server_that_refuses_is_quoted() -> None:
    server = FakeNameServer()
    server.code = ResponseCode.SYSTEM_ERROR
    async with listening(server) as address, routes_by(address) as routes:
        with pytest.raises(RemoteError, match="code 1: says so"):
            await routes.get("Orders")


async def test_the_next_name_server_is_asked_when_one_does_not_answer_and_first_from_then_on() -> None:
    server = FakeNameServer()
    server.known |= {"Orders": on_broker("a"), "Other": on_broker("a")}
    nobody = f"127.0.0.1:{free_port()}"
    async with listening(server) as address, routes_by(nobody, address) as routes:
        await routes.get("Orders")
        await routes.get("Other")
        assert routes._name_servers == [address, nobody]


async def test_without_any_name_server_the_error_names_them_all() -> None:
    ports = free_port(), free_port()
    async with routes_by(*(f"127.0.0.1:{port}" for port in ports)) as routes:
        with pytest.raises(NetworkError, match=rf"no name server answers: .*{ports[0]}.*; .*{ports[1]}"):
            await routes.get("Orders")


async def test_a_brokers_address_among_those_of_name_servers_is_passed_over_and_named_if_alone(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path) as live, routes_by(live.broker, live.name_server) as routes:
        assert "SELF_TEST_TOPIC" in await routes.topics()
        async with routes_by(live.broker) as wrong:
            for ask in (
                wrong.topics(),
                wrong.get("Orders"),
                wrong.ask_any(RequestCode.GET_BROKER_CLUSTER_INFO),
            ):
                with pytest.raises(WrongServer, match=f"{live.broker} is a broker, not a name server"):
                    await ask
        nobody = f"127.0.0.1:{free_port()}"
        async with routes_by(live.broker, nobody) as perhaps:
            with pytest.raises(
                NetworkError, match=f"{live.broker} is a broker, .*; no connection to {nobody}"
            ):
                await perhaps.topics()


async def test_a_known_route_is_used_on_while_no_name_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = turn_clock(monkeypatch)
    server = FakeNameServer()
    server.known["Orders"] = on_broker("a")
    async with routes_by(f"127.0.0.1:{(port := free_port())}") as routes:
        async with listening(server, port):
            route = await routes.get("Orders")
        turn(REFRESH_S)
        assert await routes.get("Orders") is route
        routes.expire("Orders")
        assert await routes.get("Orders") is route
        async with listening(server, port):
            turn(REFRESH_S)
            server.known["Orders"] = on_broker("bb")
            assert (await routes.get("Orders")).master("bb")


async def test_a_topic_that_is_gone_has_no_route_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = turn_clock(monkeypatch)
    server = FakeNameServer()
    server.known["Orders"] = on_broker("a")
    async with listening(server) as address, routes_by(address) as routes:
        await routes.get("Orders")
        del server.known["Orders"]
        turn(REFRESH_S)
        with pytest.raises(NoRoute):
            await routes.get("Orders")


@pytest.mark.parametrize("code", [ResponseCode.TOPIC_NOT_EXIST, ResponseCode.SYSTEM_ERROR, 0])
async def test_a_known_route_is_used_on_while_a_name_server_that_was_started_anew_does_not_know_it_yet(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = turn_clock(monkeypatch)
    server = FakeNameServer()
    server.known["Orders"] = on_broker("a")
    async with listening(server) as address, routes_by(address, gone_s=GONE_S) as routes:
        route = await routes.get("Orders")
        for _ in range(2):
            known = server.known.pop("Orders")
            server.code = code
            turn(REFRESH_S)
            assert await routes.get("Orders") is route
            turn(GONE_S - 1)
            assert await routes.get_for_sending("Orders") is route
            server.known["Orders"] = known
            turn(GONE_S)
            route = await routes.get("Orders")  # it counts anew from here on
        if code == ResponseCode.TOPIC_NOT_EXIST:
            del server.known["Orders"]
            turn(REFRESH_S)
            await routes.get("Orders")
            turn(GONE_S)
            with pytest.raises(NoRoute):
                await routes.get("Orders")


async def test_a_name_server_that_two_requests_find_dead_is_asked_last_by_the_next() -> None:
    server = FakeNameServer()
    server.known |= {"Orders": on_broker("a"), "Other": on_broker("a")}
    nobody = f"127.0.0.1:{free_port()}"
    async with listening(server) as address, routes_by(nobody, address) as routes:
        await asyncio.gather(routes.get("Orders"), routes.get("Other"))
        assert routes._name_servers == [address, nobody]


async def test_a_forgotten_route_is_asked_for_again() -> None:
    server = FakeNameServer()
    server.known["Orders"] = on_broker("a")
    async with listening(server) as address, routes_by(address) as routes:
        await routes.get("Orders")
        routes.expire("Orders")
        routes.expire("never asked for")
        await routes.get("Orders")
        assert server.asked == ["Orders", "Orders"]


@pytest.mark.parametrize(("queues", "expected"), [(8, 4), (4, 4), (2, 2)])
async def test_a_new_topic_is_sent_to_where_it_can_be_made(queues: int, expected: int) -> None:
    server = FakeNameServer()
    async with listening(server) as address, routes_by(address) as routes:
        with pytest.raises(NoRoute, match="'Orders'"):
            await routes.get_for_sending("Orders")
        server.known["TBW102"] = on_broker("a", queues=queues, perm=7)
        route = await routes.get_for_sending("Orders")
        assert (route.topic, len(route.publish_queues())) == ("Orders", expected)
        assert {queue.topic for queue in route.publish_queues()} == {"Orders"}
