import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.broker.conftest import Client
from tests.kit.brokers import name_server, publish, registered

from cometmq.broker.name_servers import topic_routes
from cometmq.broker.name_servers.topic_routes import TopicRoutes
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.topics import Topics
from cometmq.cluster.route import Route
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import TopicConfig
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import DeleteTopicInNamesrvHeader

FRESH_MS = BrokerSettings().assignments.load_balance_poll_name_server_interval


@asynccontextmanager
async def routes_from(*addresses: str) -> AsyncIterator[tuple[TopicRoutes, ManualClock]]:
    clock = ManualClock()
    settings = BrokerSettings.of(namesrv_addr=";".join(addresses))
    topics = Topics(JsonTable(Disk(), Path("never written")), clock, [], auto_create=False)
    routes = TopicRoutes(topics, settings, clock)
    try:
        yield routes, clock
    finally:
        await routes.stop()


async def find(routes: TopicRoutes, topic: str) -> Route | None:
    found: asyncio.Future[Route | None] = asyncio.get_running_loop().create_future()
    routes.when_known(topic, found.set_result)
    return await found


def sizes(route: Route | None) -> list[tuple[str, int]] | None:
    if route is None:
        return None
    return [(counts.broker_name, counts.read_count) for counts in route.queues]


async def test_a_route_is_that_of_the_name_server_and_queried_again_after_a_while(tmp_path: Path) -> None:
    async with (
        name_server() as server,
        registered(tmp_path, server.address) as (topics, _),
        routes_from(server.address) as (routes, clock),
    ):
        topics.put(TopicConfig(topic="T", read_queue_count=3))
        await publish(topics, "T")
        assert sizes(await find(routes, "T")) == [("broker-a", 3)]
        topics.put(TopicConfig(topic="T", read_queue_count=5))
        await publish(topics, "T")
        clock.advance(FRESH_MS - 1)
        assert sizes(await find(routes, "T")) == [("broker-a", 3)]
        clock.advance(1)
        assert sizes(await find(routes, "T")) == [("broker-a", 5)]


async def test_a_topic_that_is_gone_or_has_no_queue_to_read_has_no_route(tmp_path: Path) -> None:
    async with (
        name_server() as server,
        registered(tmp_path, server.address) as (topics, _),
        routes_from(server.address) as (routes, clock),
    ):
        assert await find(routes, "T") is None
        topics.put_all([TopicConfig(topic="T"), TopicConfig(topic="ToWrite", perm=2)])
        await publish(topics, "T", "ToWrite")
        assert await find(routes, "T") is not None  # that there was none is not cached
        assert await find(routes, "ToWrite") is None
        topics.delete(["T"])
        await publish(topics, "T")
        client = await Client.open(server.address)
        await client.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, DeleteTopicInNamesrvHeader("T"))
        await client.connection.close()
        clock.advance(FRESH_MS)
        assert await find(routes, "T") is None


async def test_the_last_route_is_used_while_no_name_server_answers(tmp_path: Path) -> None:
    async with routes_from("127.0.0.1:1") as (routes, _):
        assert await find(routes, "T") is None
    async with name_server() as server, registered(tmp_path, server.address) as (topics, _):
        topics.put(TopicConfig(topic="T", read_queue_count=3))
        await publish(topics, "T")
        async with routes_from(server.address) as (routes, clock):
            assert sizes(await find(routes, "T")) == [("broker-a", 3)]
            await server.stop()
            clock.advance(FRESH_MS)
            assert sizes(await find(routes, "T")) == [("broker-a", 3)]
            assert await find(routes, "U") is None


async def test_a_name_server_that_does_not_answer_is_the_last_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections: list[asyncio.StreamWriter] = []
    silent = await asyncio.start_server(lambda _, writer: connections.append(writer), "127.0.0.1", 0)
    host, port = silent.sockets[0].getsockname()
    async with silent, name_server() as server, registered(tmp_path, server.address):
        monkeypatch.setattr(topic_routes, "QUERY_S_MAX", 0.1)
        async with routes_from(f"{host}:{port}", server.address) as (routes, _):
            assert await find(routes, "TBW102") is not None
            monkeypatch.setattr(topic_routes, "QUERY_S_MAX", 60)
            assert await find(routes, "SELF_TEST_TOPIC") is not None
        for connection in connections:
            connection.close()
        assert len(connections) == 1


async def test_requests_for_one_topic_share_a_query_and_more_than_may_wait_get_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_routes, "WAITING_MAX", 2)
    async with (
        name_server() as server,
        registered(tmp_path, server.address),
        routes_from(server.address) as (routes, _),
    ):
        found: list[Route | None] = []
        routes.when_known("TBW102", found.append)
        second = asyncio.create_task(find(routes, "TBW102"))
        await asyncio.sleep(0)
        assert await find(routes, "TBW102") is None
        assert found == []
        assert [await second] == found != [None]
        assert await find(routes, "TBW102") is found[0]


async def test_no_more_routes_are_kept_than_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_routes, "ROUTES_MAX", 2)
    async with (
        name_server() as server,
        registered(tmp_path, server.address),
        routes_from(server.address) as (routes, _),
    ):
        names = ["TBW102", "SELF_TEST_TOPIC", "BenchmarkTest"]
        for name in names:
            assert await find(routes, name) is not None
        assert list(routes._known) == names[1:]
