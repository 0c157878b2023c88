import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import live
from tests.broker.conftest import Bench, Client, serving
from tests.kit.brokers import name_server

from cometmq.broker.name_servers.registration import NameServers
from cometmq.broker.settings import BrokerSettings
from cometmq.wire.bodies import (
    AssignmentRequest,
    AssignmentResponse,
    GroupConfig,
    MessageModel,
    MessageModeRequest,
    MessageModes,
    RequestMode,
    TopicConfig,
    decode,
)
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import DeleteGroupHeader, TopicHeader

BROKER = "broker-a"


@asynccontextmanager
async def in_cluster(root: Path, **settings: Any) -> AsyncIterator[Bench]:
    """Serve a store with the topic T of 4 queues and the group g, registered at a name server."""
    async with (
        name_server() as server,
        serving(root, namesrv_addr=server.address, **settings) as bench,
    ):
        own = BrokerSettings.of(broker_name=BROKER, namesrv_addr=server.address)
        registration = NameServers(bench.parts.topics, own, bench.address)
        registration.begin()
        bench.parts.topics.put(TopicConfig(topic="T", read_queue_count=4, write_queue_count=4))
        bench.parts.groups.put(GroupConfig("g"))
        await registration.wait_known()
        try:
            yield bench
        finally:
            await registration.stop()


async def set_mode(
    bench: Bench,
    mode: RequestMode = RequestMode.POP,
    share: int = 0,
    *,
    topic: str = "T",
    group: str = "g",
) -> int:
    body = MessageModeRequest(topic, group, mode, share)
    return (await bench.ask(RequestCode.SET_MESSAGE_REQUEST_MODE, body=body)).code


async def modes(bench: Bench) -> dict[str, dict[str, MessageModeRequest]]:
    answer = await bench.ask(RequestCode.GET_ALL_MESSAGE_REQUEST_MODE)
    return decode(MessageModes, answer.body).modes


async def assigned(
    client: Client,
    client_id: str = "a",
    *,
    topic: str = "T",
    strategy: str | None = "AVG",
    model: MessageModel = MessageModel.CLUSTERING,
) -> list[tuple[int, str]] | None:
    """Return the queue ids that a client of the group g is assigned, and their modes."""
    request = AssignmentRequest(topic, "g", client_id, strategy, model)
    answer = await client.ask(RequestCode.QUERY_ASSIGNMENT, body=request)
    assert answer.code == ResponseCode.SUCCESS
    assignments = decode(AssignmentResponse, answer.body).assignments
    if assignments is None:
        return None
    assert all((each.queue.topic, each.queue.broker_name) == (topic, BROKER) for each in assignments)
    return [(each.queue.queue_id, each.mode.value) for each in assignments]


@asynccontextmanager
async def members(bench: Bench, *client_ids: str) -> AsyncIterator[None]:
    """Connect clients as members of the group g."""
    clients = [await Client.open(bench.address) for _ in client_ids]
    for client, client_id in zip(clients, client_ids, strict=True):
        await client.heartbeat("g", "T", client_id=client_id)
    try:
        yield
    finally:
        for client in clients:
            await client.connection.close()


async def test_the_queues_are_divided_among_the_members_of_a_group(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as bench, members(bench, "a", "b"):
        assert await assigned(bench, "a") == [(0, "PULL"), (1, "PULL")]
        assert await assigned(bench, "b") == [(2, "PULL"), (3, "PULL")]
        assert await assigned(bench, "a", strategy="AVG_BY_CIRCLE") == [(0, "PULL"), (2, "PULL")]
        assert await assigned(bench, "stranger") == []
        async with members(bench, "a", "c"):  # a client that has connected again, and not left yet
            assert await assigned(bench, "a") == [(0, "PULL"), (1, "PULL")]
            assert await assigned(bench, "c") == [(3, "PULL")]


async def test_a_broker_assigns_by_the_routes_of_its_own_name_server(tmp_path: Path) -> None:
    async with live.serving(tmp_path) as addresses:
        client = await Client.open(addresses.broker)
        await client.send("T")
        await client.heartbeat("g", "T", client_id="a")
        assert await assigned(client) == [(queue_id, "PULL") for queue_id in range(4)]
        await client.connection.close()


async def test_a_client_keeps_its_queues_where_nothing_can_be_decided(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as bench:
        assert await assigned(bench) is None  # no member
        async with members(bench, "a"):
            assert await assigned(bench, strategy="CONSISTENT_HASH") is None
            assert await assigned(bench, strategy=None) is None
            assert await assigned(bench, topic="Unknown") is None
            assert await assigned(bench, topic="illegal name") is None
            assert await assigned(bench) is not None


async def test_a_broker_without_name_servers_assigns_its_own_queues(tmp_path: Path) -> None:
    async with serving(tmp_path) as alone, members(alone, "a"):
        alone.parts.topics.put(TopicConfig(topic="T", read_queue_count=2))
        assert await assigned(alone) == [(0, "PULL"), (1, "PULL")]
        assert await assigned(alone, topic="Unknown") is None
        alone.parts.topics.put(TopicConfig(topic="ToWrite", perm=2))
        assert await assigned(alone, topic="ToWrite") is None


async def test_all_queues_are_assigned_where_each_client_reads_all(tmp_path: Path) -> None:
    everything = [(queue_id, "PULL") for queue_id in range(4)]
    async with in_cluster(tmp_path) as bench:
        assert await assigned(bench, "any", model=MessageModel.BROADCASTING) == everything
    async with in_cluster(tmp_path / "b", server_load_balancer_enable=False) as bench:
        assert await assigned(bench, "any", strategy=None) == everything


async def test_a_group_that_pops_shares_queues(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as bench, members(bench, "a", "b", "c", "d"):
        assert await set_mode(bench, share=1) == ResponseCode.SUCCESS
        assert await assigned(bench, "a") == [(0, "POP"), (1, "POP")]
        assert await assigned(bench, "d") == [(3, "POP"), (0, "POP")]
        assert await set_mode(bench, share=8) == ResponseCode.SUCCESS
        assert await assigned(bench, "a") == [(-1, "POP")]
        assert await set_mode(bench, RequestMode.PULL) == ResponseCode.SUCCESS
        assert await assigned(bench, "a") == [(0, "PULL")]


async def test_the_default_mode_is_a_setting_and_a_retry_topic_is_always_pulled(tmp_path: Path) -> None:
    settings = {"default_message_request_mode": RequestMode.POP, "default_pop_share_queue_num": 1}
    async with in_cluster(tmp_path, **settings) as bench, members(bench, "a", "b", "c"):
        assert await assigned(bench, "a") == [(0, "POP"), (1, "POP"), (2, "POP")]
        assert await assigned(bench, "a", topic="%RETRY%g") == [(0, "PULL")]
        assert await set_mode(bench, RequestMode.PULL) == ResponseCode.SUCCESS
        assert await assigned(bench, "c") == [(3, "PULL")]


@pytest.mark.parametrize(
    ("topic", "group", "code"),
    [
        ("%RETRY%g", "g", ResponseCode.NO_PERMISSION),
        ("Unknown", "g", ResponseCode.TOPIC_NOT_EXIST),
        ("T", "no group", ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_mode_needs_a_topic_that_exists_and_the_name_of_a_group(
    tmp_path: Path, topic: str, group: str, code: ResponseCode
) -> None:
    async with in_cluster(tmp_path) as bench:
        assert await set_mode(bench, topic=topic, group=group) == code
        assert await modes(bench) == {}


async def test_a_mode_is_set_before_its_group_has_started(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as bench:
        assert await set_mode(bench, group="later") == ResponseCode.SUCCESS
        assert list((await modes(bench))["T"]) == ["later"]
        assert bench.parts.groups.find("later") == GroupConfig("later")
    async with in_cluster(tmp_path / "b", auto_create_subscription_group=False) as bench:
        assert await set_mode(bench, group="later") == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert await modes(bench) == {}


async def test_the_number_of_modes_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cometmq.broker.state.pop.message_modes.MODES_MAX", 2)
    async with in_cluster(tmp_path) as bench:
        assert await set_mode(bench, group="g") == ResponseCode.SUCCESS
        assert await set_mode(bench, group="h") == ResponseCode.SUCCESS
        assert await set_mode(bench, group="i") == ResponseCode.INVALID_PARAMETER
        assert bench.parts.groups.find("i") is None
        assert await set_mode(bench, RequestMode.PULL, group="h") == ResponseCode.SUCCESS


async def test_a_mode_is_on_the_disk_before_it_is_answered(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as bench:
        assert await set_mode(bench, share=8) == ResponseCode.SUCCESS
        content = json.loads((tmp_path / "config" / "messageRequestMode.json").read_text())
        expected = {"consumerGroup": "g", "mode": "POP", "popShareQueueNum": 8, "topic": "T"}
        assert content == {"messageRequestModeMap": {"T": {"g": expected}}}
    async with serving(tmp_path) as again:
        assert await modes(again) == {"T": {"g": MessageModeRequest("T", "g", RequestMode.POP, 8)}}


async def test_a_mode_that_the_disk_refuses_is_not_set(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as bench:
        (tmp_path / "config" / "messageRequestMode.json").mkdir(parents=True)
        assert await set_mode(bench) == ResponseCode.SERVICE_NOT_AVAILABLE
        assert await modes(bench) == {}


async def test_the_modes_of_a_deleted_topic_or_group_are_gone(tmp_path: Path) -> None:
    async with in_cluster(tmp_path) as bench:
        bench.parts.topics.put(TopicConfig(topic="U"))
        bench.parts.groups.put(GroupConfig("h"))
        for topic, group in (("T", "g"), ("T", "h"), ("U", "g"), ("U", "h")):
            assert await set_mode(bench, topic=topic, group=group) == ResponseCode.SUCCESS
        deleted = await bench.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader("U"))
        assert deleted.code == ResponseCode.SUCCESS
        deleted = await bench.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, DeleteGroupHeader("g"))
        assert deleted.code == ResponseCode.SUCCESS
        assert {topic: list(groups) for topic, groups in (await modes(bench)).items()} == {"T": ["h"]}
        bench.parts.groups.put(GroupConfig("g"))
        assert await set_mode(bench, topic="T", group="g") == ResponseCode.SUCCESS
