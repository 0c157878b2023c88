from pathlib import Path

from tests.consuming import hanging
from tests.fuzzed_broker import NAME, fuzzed_broker
from tests.live import BROKER, serving

from cometmq.admin.doctor.cluster import _judge, _masters, examine
from cometmq.admin.doctor.findings import Level
from cometmq.admin.topics import TopicAdmin, TopicOnBroker
from cometmq.client import Producer
from cometmq.message import Message
from cometmq.net.address import free_port
from cometmq.wire.bodies.route import BrokerData, ClusterInfo


async def test_each_name_server_is_examined_and_the_best_informed_is_asked_for_brokers(
    tmp_path: Path,
) -> None:
    dead = f"127.0.0.1:{free_port()}"
    async with (
        serving(tmp_path / "one", namesrv_addr="") as empty,
        serving(tmp_path / "two") as live,
    ):
        found = await examine(f"{dead};{empty.name_server};{live.name_server}")
    servers = {one.subject: one for one in found if one.check == "name server"}
    assert "refused" in servers[dead].text
    assert "no broker" in servers[empty.name_server].text
    assert servers[live.name_server].level is Level.OK
    assert {one.subject for one in found if one.check == "address"} == {f"{BROKER} at {live.broker}"}


async def test_a_group_whose_handlers_hang_before_its_first_commit_is_warned_of(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("T", queues=1)
        async with Producer(live.name_server) as producer:
            await producer.send(Message("T", b"x"))
        async with hanging(live.name_server, "stuck", "T"):
            (found,) = [one for one in await examine(live.name_server) if one.check == "groups"]
        assert (found.level, found.subject) == (Level.WARNING, "stuck")
        assert found.text == "it has 1 member and has committed nothing yet, while 1 message waits for it"
        assert "cometmq group show stuck" in found.remedy


def test_a_topic_counts_as_long_as_one_broker_accepts_and_delivers() -> None:
    lines = [TopicOnBroker("t", "a", 4, 4, 4), TopicOnBroker("t", "b", 0, 4, 6)]
    (found,) = _judge(lines)
    assert found.level is Level.OK


def test_topics_without_queues_to_read_or_write_are_counted() -> None:
    lines = [TopicOnBroker(f"t{number}", "a", 0, 4, 2) for number in range(5)]
    (found,) = _judge(lines)
    assert found.text == "no broker delivers messages of t0, t1, t2 and 2 more"


def test_a_broker_without_a_master_is_a_fault() -> None:
    (found,) = _masters(
        ClusterInfo(
            brokers={"a": BrokerData(cluster="c", broker_name="a", addrs={1: "192.0.2.1:10911"})}, clusters={}
        )
    )
    assert found.level is Level.FAULT and "master" in found.remedy


async def test_a_broker_that_answers_what_cannot_be_read_is_a_fault_of_its_name(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin, fuzzed_broker(admin):
        found = [one for one in await examine(live.name_server) if NAME in one.subject]
    assert [(one.check, one.level) for one in found] == [("address", Level.FAULT), ("groups", Level.FAULT)]
    assert all("answers what cannot be read" in one.text and "log" in one.remedy for one in found)
