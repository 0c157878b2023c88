"""Who reads which queues, and how: asked by clients, set by operators."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.broker.conftest import Bench, Client, GatedDisk, serving

from cometmq.format.checksum import body_crc
from cometmq.message import MessageQueue
from cometmq.namesrv.name_server import NameServer
from cometmq.wire.bodies import (
    AssignmentRequest,
    AssignmentResponse,
    MessageModel,
    MessageModeRequest,
    MessageModes,
    QueueAssignment,
    Registration,
    RequestMode,
    TopicConfig,
    TopicTable,
    decode,
    encode,
)
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import RegisterBrokerHeader, TopicHeader


async def assigned(client: Client, client_id: str, **changes: Any) -> list[QueueAssignment] | None:
    request = AssignmentRequest(
        **{"topic": "T", "consumer_group": "g", "client_id": client_id, "strategy": "AVG"} | changes
    )
    answer = await client.ask(RequestCode.QUERY_ASSIGNMENT, body=request)
    assert answer.code == ResponseCode.SUCCESS, answer
    return decode(AssignmentResponse, answer.body).assignments


async def set_mode(
    bench: Bench, mode: RequestMode, share: int = 0, topic: str = "T", group: str = "g"
) -> int:
    request = MessageModeRequest(topic, group, mode, share)
    return (await bench.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=request)).code


def queues(found: list[QueueAssignment] | None) -> list[int]:
    assert found is not None
    return [one.queue.queue_id for one in found]


async def two_members(bench: Bench) -> Client:
    """Let T exist with four queues, and g have the members c and d."""
    await bench.send("T")
    await bench.heartbeat("g", "T", client_id="c")
    other = await Client.open(bench.address)
    await other.heartbeat("g", "T", client_id="d")
    return other


async def test_members_that_pull_share_the_queues(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        other = await two_members(bench)
        first, second = await assigned(bench, "c"), await assigned(bench, "d")
        assert queues(first) + queues(second) == [0, 1, 2, 3]
        assert {one.mode for one in first or ()} == {RequestMode.PULL}
        assert queues(await assigned(bench, "c", strategy="AVG_BY_CIRCLE")) == [0, 2]
        assert queues(await assigned(bench, "c", message_model=MessageModel.BROADCASTING)) == [0, 1, 2, 3]
        await other.connection.close()


async def test_a_client_keeps_its_queues_if_nothing_is_known(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        other = await two_members(bench)
        for changes in ({"topic": "unknown"}, {"consumer_group": "unknown"}, {"strategy": "other"}):
            assert await assigned(bench, "c", **changes) is None
        await other.connection.close()


async def test_without_the_load_balancer_each_member_that_pulls_has_all_queues(tmp_path: Path) -> None:
    async with serving(tmp_path, server_load_balancer_enable=False) as bench:
        other = await two_members(bench)
        assert queues(await assigned(bench, "d")) == [0, 1, 2, 3]
        await other.connection.close()


async def test_a_group_that_was_set_to_pop_pops_all_queues_of_each_broker(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        other = await two_members(bench)
        assert await set_mode(bench, RequestMode.POP) == ResponseCode.SUCCESS
        every = [QueueAssignment(MessageQueue("T", "broker-a", -1), RequestMode.POP)]
        assert await assigned(bench, "c") == await assigned(bench, "d") == every
        assert await assigned(bench, "c", consumer_group="other") is None
        answer = await bench.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        assert decode(MessageModes, answer.body).modes == {
            "T": {"g": MessageModeRequest("T", "g", RequestMode.POP, 0)}
        }
        await other.connection.close()
    async with serving(tmp_path) as bench:
        other = await two_members(bench)
        assert await assigned(bench, "c") == every, "it was saved"
        assert await set_mode(bench, RequestMode.PULL) == ResponseCode.SUCCESS
        assert queues(await assigned(bench, "c")) == [0, 1]
        await other.connection.close()


async def test_a_retry_topic_is_pulled_whatever_the_default_is(tmp_path: Path) -> None:
    async with serving(tmp_path, default_message_request_mode=RequestMode.POP) as bench:
        other = await two_members(bench)
        assert {one.mode for one in await assigned(bench, "c") or ()} == {RequestMode.POP}
        retry = await assigned(bench, "c", topic="%RETRY%g")
        assert retry is not None and {one.mode for one in retry} == {RequestMode.PULL}
        await other.connection.close()


@pytest.mark.parametrize(
    ("topic", "group", "code"),
    [
        ("%RETRY%g", "g", ResponseCode.NO_PERMISSION),
        ("unknown", "g", ResponseCode.TOPIC_NOT_EXIST),
        ("T", "unknown", ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)
async def test_a_mode_is_refused_for_what_does_not_exist(
    tmp_path: Path, topic: str, group: str, code: ResponseCode
) -> None:
    async with serving(tmp_path) as bench:
        other = await two_members(bench)
        assert await set_mode(bench, RequestMode.POP, topic=topic, group=group) == code
        await other.connection.close()


async def test_a_mode_that_the_disk_refuses_does_not_hold(tmp_path: Path) -> None:
    disk = GatedDisk()
    async with serving(tmp_path, files=disk) as bench:
        other = await two_members(bench)
        await bench.parts.topics.settled()
        await bench.parts.groups.settled()
        disk.space_bytes = 0
        assert await set_mode(bench, RequestMode.POP) not in (ResponseCode.SUCCESS, None)
        assert queues(await assigned(bench, "c")) == [0, 1]
        disk.space_bytes = 2**40
        assert await set_mode(bench, RequestMode.POP) == ResponseCode.SUCCESS
        await other.connection.close()


async def test_the_mode_of_a_deleted_topic_is_forgotten(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        other = await two_members(bench)
        await set_mode(bench, RequestMode.POP)
        await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("T"))
        answer = await bench.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
        assert decode(MessageModes, answer.body).modes == {}
        await other.connection.close()


async def test_the_queues_of_other_brokers_come_from_the_name_server(tmp_path: Path) -> None:
    name_server = NameServer(port=0)
    await name_server.start()
    topics = {
        name: TopicConfig(topic=name, read_queue_count=2, write_queue_count=2, perm=6) for name in ("T", "U")
    }
    table = TopicTable(topics=topics)
    clients: list[Client] = []
    for port, name in enumerate(("broker-a", "broker-b"), 1):
        header = RegisterBrokerHeader(
            name, f"127.0.0.1:{port}", "DefaultCluster", 0, ha_server_addr="127.0.0.1:1"
        )
        clients.append(client := await Client.open(name_server.address))
        body = encode(Registration(table=table))
        header = replace(header, body_crc=body_crc(body))
        answer = await client.ask(RequestCode.REGISTER_BROKER, header, body)
        assert answer.code == ResponseCode.SUCCESS, answer
    async with serving(tmp_path, namesrv_addr=name_server.address) as bench:
        await bench.heartbeat("g", "T", client_id="c")
        found = await assigned(bench, "c")
        assert found is not None
        expected = [
            MessageQueue("T", broker, queue) for broker in ("broker-a", "broker-b") for queue in (0, 1)
        ]
        assert [one.queue for one in found] == expected
        assert await assigned(bench, "c", topic="unknown") is None
    for client in clients:
        await client.connection.close()
    await name_server.stop()
