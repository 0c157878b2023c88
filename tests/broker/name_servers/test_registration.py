import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.kit.brokers import ADDRESS, name_server, publish, registered

from cometmq.broker.name_servers import registration
from cometmq.broker.name_servers.registration import NameServers
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.topics import Topics, boot_topics
from cometmq.errors import SettingsError
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk
from cometmq.namesrv.name_server import NameServer
from cometmq.namesrv.routes import RouteTable
from cometmq.net.client import Connections
from cometmq.replication.settings import BrokerRole
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import DataVersion, Registration, TopicConfig, TopicRoute, TopicTable, decode, encode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import GetRouteHeader, RegisterBrokerResponseHeader, fields


async def test_a_change_in_the_moment_of_the_stop_does_not_hold_it_up(tmp_path: Path) -> None:
    async with name_server() as server, registered(tmp_path, server.address) as (_, name_servers):
        async with asyncio.timeout(60):
            while not await route(server.address, "TBW102"):
                pass
        name_servers.inform_again(lambda: None)  # the task is woken and cancelled at once


async def route(server: str, topic: str) -> TopicRoute | None:
    connections = Connections()
    command = Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, ext_fields=fields(GetRouteHeader(topic)))
    answer = await connections.request(server, command)
    await connections.close()
    return decode(TopicRoute, answer.body) if answer.code == ResponseCode.SUCCESS else None


async def wait_for_route(server: str, topic: str) -> TopicRoute:
    async with asyncio.timeout(60):
        while (found := await route(server, topic)) is None:
            continue
    return found


async def test_all_name_servers_know_the_broker_when_it_has_started_and_not_when_it_has_stopped(
    tmp_path: Path,
) -> None:
    async with name_server() as one, name_server() as two:
        async with registered(tmp_path, one.address, two.address):
            for server in (one, two):
                found = await route(server.address, "TBW102")
                assert found is not None
                assert found.brokers[0].addrs == {0: ADDRESS}
                assert (found.queues[0].perm, found.queues[0].write_queue_count) == (7, 8)
        assert await route(one.address, "TBW102") is None
        assert await route(two.address, "TBW102") is None


async def test_a_changed_topic_is_known_at_once(tmp_path: Path) -> None:
    async with name_server() as server, registered(tmp_path, server.address) as (topics, _):
        for n in range(3):
            topics.put(TopicConfig(topic=f"T{n}", write_queue_count=n + 1))
        found = await wait_for_route(server.address, "T2")
        assert found.queues[0].write_queue_count == 3
        assert await route(server.address, "T0") is not None


async def test_a_name_server_that_is_away_holds_up_nobody_and_is_found_when_it_comes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with name_server() as spare:
        away = spare.address
    async with name_server() as there, registered(tmp_path, away, there.address) as (topics, _):
        assert await route(there.address, "TBW102") is not None
        topics.put(TopicConfig(topic="T"))
        await wait_for_route(there.address, "T")
        async with name_server(port=int(away.rpartition(":")[2])):
            await wait_for_route(away, "T")
    assert len([record for record in caplog.records if "accepts no registration" in record.message]) == 1


async def test_a_broker_without_name_servers_starts_and_stops(tmp_path: Path) -> None:
    async with registered(tmp_path) as (topics, _):
        topics.put(TopicConfig(topic="T"))


@pytest.mark.parametrize(("permission", "permitted"), [(6, 7), (4, 4)])
async def test_a_registration_is_the_json_of_all_topics_as_they_are(
    tmp_path: Path, permission: int, permitted: int
) -> None:
    async with registered(tmp_path, permission=permission) as (topics, name_servers):
        for perm in (6, 6, 4):
            topics.put(TopicConfig(topic="A", perm=perm, attributes={"+a": "\n\t Ü"}))
            table = TopicTable(
                topics.data_version,
                mapping_version=DataVersion(),
                topics={topic.topic: replace(topic, perm=topic.perm & permitted) for topic in topics},
                mapping_details={},
                mapping_infos={},
            )
            assert (await name_servers._registration(None)).body == encode(Registration(table=table))


async def test_what_the_broker_does_not_permit_no_topic_offers(tmp_path: Path) -> None:
    async with name_server() as server, registered(tmp_path, server.address, permission=4):
        found = await route(server.address, "TBW102")
        assert found is not None and found.queues[0].perm == 4


async def test_who_makes_a_topic_is_answered_when_the_name_servers_know_it(tmp_path: Path) -> None:
    async with (
        name_server() as one,
        name_server() as two,
        registered(tmp_path, one.address, two.address) as (topics, _),
    ):
        for n in range(5):
            topics.put(TopicConfig(topic=f"T{n}"))
            await publish(topics, f"T{n}")
            assert await route(one.address, f"T{n}") and await route(two.address, f"T{n}")
        await publish(topics)  # nothing has changed


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """What name servers are told: the topics of each registration."""
    registrations: list[set[str]] = []
    register = RouteTable.registering

    def listen(routes: RouteTable, header: Any, registration: Registration, *rest: Any) -> Any:
        registrations.append(set(registration.table.topics))
        return register(routes, header, registration, *rest)

    monkeypatch.setattr(RouteTable, "registering", listen)
    return registrations


async def test_only_what_has_changed_is_told_again(tmp_path: Path, told: list[set[str]]) -> None:
    async with name_server() as server, registered(tmp_path, server.address) as (topics, _):
        topics.put(TopicConfig(topic="A"))
        await publish(topics, "A")
        topics.put(TopicConfig(topic="B"))
        topics.put(TopicConfig(topic="C"))
        await publish(topics, "B", "C")
        everything = {topic.topic for topic in topics}
        assert told == [everything - {"A", "B", "C"}, {"A"}, {"B", "C"}]
        topics.put(TopicConfig(topic="B", write_queue_count=3))
        await publish(topics, "B")
        assert told[3:] == [{"B"}]
        found = await route(server.address, "B")
        assert found is not None and found.queues[0].write_queue_count == 3


async def test_where_a_topic_was_deleted_or_nothing_has_changed_everything_is_told(
    tmp_path: Path, told: list[set[str]]
) -> None:
    async with name_server() as server, registered(tmp_path, server.address) as (topics, _):
        topics.put(TopicConfig(topic="A"))
        topics.put(TopicConfig(topic="B"))
        topics.delete(["A"])
        await publish(topics, "A", "B")
        await publish(topics)
        everything = {topic.topic for topic in topics}
        assert told[1:] == [everything, everything]
        topics.put(TopicConfig(topic="B", perm=4))
        await publish(topics)
        assert told[3:] == [everything], "an operator asks for all, whatever else has changed"


async def test_a_name_server_that_comes_again_is_told_everything(
    tmp_path: Path, told: list[set[str]]
) -> None:
    async with name_server() as first:
        address = first.address
        served = registered(tmp_path, address)
        topics, _ = await served.__aenter__()
    async with name_server(port=int(address.rpartition(":")[2])):
        topics.put(TopicConfig(topic="A"))
        await wait_for_route(address, "A")
        assert told[-1] == {topic.topic for topic in topics}
        await served.__aexit__(None, None, None)


async def test_a_name_server_that_is_away_delays_no_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registration, "INFORM_WAIT_S", 3_600)
    async with name_server() as spare:
        away = spare.address
    async with registered(tmp_path, away) as (topics, _):
        published = asyncio.Event()
        topics.put(TopicConfig(topic="T"))
        topics.when_published(["T"], lambda _: published.set())
        await asyncio.wait_for(published.wait(), 60)


async def test_who_waits_as_the_broker_stops_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message is stored: without its answer a producer would send it again."""
    answered: list[str] = []
    async with name_server() as server:
        async with registered(tmp_path, server.address) as (topics, _):
            monkeypatch.setattr(NameServer, "_register", lambda *_: None)  # it takes none, and says nothing
            topics.put(TopicConfig(topic="T"))
            topics.when_published(["T"], lambda _: answered.append("T"))
            await topics.settled()
            assert answered == []
        assert answered == ["T"]
        topics.put(TopicConfig(topic="U"))
        topics.when_published(["U"], lambda _: answered.append("U"))
        await topics.settled()
        assert answered == ["T", "U"], "nobody is told of it any more"


@pytest.mark.parametrize(("own", "announced"), [(None, "127.0.0.1:10912"), ("10.0.0.9", "10.0.0.9:10912")])
async def test_slaves_are_sent_to_broker_ip2_if_that_is_set(
    tmp_path: Path, own: str | None, announced: str
) -> None:
    async with name_server() as server:
        settings = BrokerSettings.of(broker_name="broker-a", namesrv_addr=server.address, broker_ha_ip=own)
        topics = Topics(
            JsonTable(Disk(), tmp_path / "topics.json"),
            ManualClock(),
            boot_topics(settings),
            auto_create=True,
        )
        answered: asyncio.Queue[RegisterBrokerResponseHeader] = asyncio.Queue()
        master = NameServers(topics, settings, ADDRESS)
        slave_settings = settings.changed(broker_id=1, broker_role=BrokerRole.SLAVE)
        slave = NameServers(topics, slave_settings, "127.0.0.1:10921", None, answered.put_nowait)
        master.begin()
        await master.wait_known()
        slave.begin()
        async with asyncio.timeout(60):
            assert (await answered.get()).ha_server_addr == announced
        await slave.stop()
        await master.stop()


async def test_what_is_no_address_is_refused_at_the_start(tmp_path: Path) -> None:
    async def main() -> None:
        async with registered(tmp_path, "nowhere"):
            pass

    with pytest.raises(SettingsError, match="'nowhere': write it as host:port"):
        await main()
