import asyncio
import threading
from pathlib import Path

import pytest
from tests.broker.conftest import Bench, Client, serving
from tests.kit.stores import HeldDisk

from cometmq.broker.state.producers import SILENCE_MS_MAX
from cometmq.wire.bodies import (
    ClientConfigCheck,
    ConsumerData,
    ConsumerIds,
    GroupConfig,
    Heartbeat,
    ProducerData,
    SubscriptionData,
    decode,
)
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import ConsumerGroupHeader, ProducerGroupHeader, UnregisterClientHeader

NOTICE = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


async def ids(client: Client, group: str = "cg") -> list[str]:
    answer = await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupHeader(group))
    return decode(ConsumerIds, answer.body).ids if answer.code == 0 else []


async def wait_for_notice(client: Client) -> None:
    notice = await asyncio.wait_for(client.told.get(), 60)
    assert (notice.code, notice.is_oneway, notice.ext_fields) == (NOTICE, True, {"consumerGroup": "cg"})


async def test_a_heartbeat_makes_the_group_its_retry_topic_and_a_notice(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        assert (await bench.heartbeat("cg", "T", client_id="first")).code == ResponseCode.SUCCESS
        await wait_for_notice(bench)
        retry = bench.parts.topics.find("%RETRY%cg")
        assert retry is not None and retry.read_queue_count == 1
        assert await ids(bench) == ["first"]


async def test_all_members_are_told_who_comes_and_goes(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.heartbeat("cg", "T", client_id="first")
        await wait_for_notice(bench)
        second, third = await Client.open(bench.address), await Client.open(bench.address)
        await second.heartbeat("cg", "T", client_id="second")
        await wait_for_notice(bench)
        await wait_for_notice(second)
        await third.heartbeat("cg", "T", client_id="third")
        for member in (bench, second, third):
            await wait_for_notice(member)
        assert await ids(bench) == ["first", "second", "third"]
        goodbye = UnregisterClientHeader("second", consumer_group="cg")
        assert (await second.ask(RequestCode.UNREGISTER_CLIENT, goodbye)).code == 0
        await wait_for_notice(bench)
        await third.connection.close()
        await wait_for_notice(bench)
        assert await ids(bench) == ["first"]
        assert second.told.empty()
        await second.connection.close()


def test_nobody_is_told_when_that_is_switched_off(tmp_path: Path) -> None:
    async def main(bench: Bench) -> None:
        await bench.heartbeat("cg", "T")
        await ids(bench)
        assert bench.told.empty()

    async def by_the_broker() -> None:
        async with serving(tmp_path / "a", notify_consumer_ids_changed_enable=False) as bench:
            await main(bench)

    async def by_the_group() -> None:
        async with serving(tmp_path / "b") as bench:
            config = GroupConfig(group="cg", notify_consumer_ids_changed_enable=False)
            await bench.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=config)
            await main(bench)

    asyncio.run(by_the_broker())
    asyncio.run(by_the_group())


async def test_a_group_that_may_not_be_created_is_passed_over(tmp_path: Path) -> None:
    async with serving(tmp_path, auto_create_subscription_group=False) as bench:
        assert (await bench.heartbeat("cg", "T")).code == ResponseCode.SUCCESS
        assert await ids(bench) == []


@pytest.mark.parametrize("name", ["../cg", "g" * 249, "g" * 255])
async def test_a_group_with_an_illegal_name_is_passed_over(tmp_path: Path, name: str) -> None:
    async with serving(tmp_path) as bench:
        assert (await bench.heartbeat(name, "T")).code == ResponseCode.SUCCESS
        assert (await bench.send("T")).code == ResponseCode.SUCCESS


async def test_an_unknown_group_has_no_members(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, ConsumerGroupHeader("cg"))
        assert (answer.code, answer.remark) == (
            ResponseCode.SYSTEM_ERROR,
            "no consumer for this group, cg",
        )


async def test_how_soon_a_silent_client_and_an_empty_group_are_forgotten_are_settings(tmp_path: Path) -> None:
    async with serving(tmp_path, channel_expired_timeout=1_000, subscription_expired_timeout=2_000) as bench:
        consumer = await Client.open(bench.address)
        await consumer.heartbeat("cg", "T")
        bench.clock.advance(1_000)
        bench.parts.clients.close_silent()
        assert bench.parts.consumers.find("cg") is not None
        bench.clock.advance(1)
        bench.parts.clients.close_silent()
        await consumer.connection._lost.wait()
        bench.clock.advance(2_001)
        bench.parts.clients.close_silent()
        assert bench.parts.consumers.find("cg") is None


async def test_a_client_that_is_silent_for_too_long_is_disconnected(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        producer, consumer = await Client.open(bench.address), await Client.open(bench.address)
        await producer.ask(RequestCode.HEART_BEAT, body=Heartbeat("p", producers=[ProducerData("pg")]))
        await consumer.heartbeat("cg", "T")
        bench.clock.advance(SILENCE_MS_MAX + 1)
        await bench.heartbeat("cg", "T", client_id="lively")
        bench.parts.clients.close_silent()
        await producer.connection._lost.wait()
        await consumer.connection._lost.wait()
        assert await ids(bench) == ["lively"]
        header = ProducerGroupHeader("pg")
        answer = await bench.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, header)
        assert answer.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    ("expression_type", "code"), [("TAG", ResponseCode.SUCCESS), ("SQL92", ResponseCode.SYSTEM_ERROR)]
)
async def test_a_client_may_ask_whether_its_filter_is_understood(
    tmp_path: Path, expression_type: str, code: ResponseCode
) -> None:
    async with serving(tmp_path) as bench:
        subscription = SubscriptionData("T", expression_type=expression_type, expression="a > 1")
        check = ClientConfigCheck("c", "cg", subscription)
        assert (await bench.ask(RequestCode.CHECK_CLIENT_CONFIG, body=check)).code == code


async def test_a_filter_is_checked_where_filters_are_allowed(tmp_path: Path) -> None:
    async with serving(tmp_path, enable_property_filter=True) as bench:
        for expression, code, says in [
            ("a > 1", ResponseCode.SUCCESS, ""),
            ("a > 'x'", ResponseCode.SUBSCRIPTION_PARSE_FAILED, "at character 5"),
        ]:
            subscription = SubscriptionData("T", expression_type="SQL92", expression=expression)
            check = ClientConfigCheck("c", "cg", subscription)
            answer = await bench.ask(RequestCode.CHECK_CLIENT_CONFIG, body=check)
            assert (answer.code, says in (answer.remark or "")) == (code, True)


async def test_a_filter_is_dead_when_its_group_has_no_members(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        subscription = SubscriptionData("T", expression_type="SQL92", expression="a > 1")
        beat = Heartbeat("c", consumers=[ConsumerData("cg", subscriptions=[subscription])])
        await bench.ask(RequestCode.HEART_BEAT, body=beat)
        known = bench.parts.filters.find("T", "cg")
        assert known is not None and not known.is_dead
        await bench.ask(RequestCode.UNREGISTER_CLIENT, UnregisterClientHeader("c", consumer_group="cg"))
        known = bench.parts.filters.find("T", "cg")
        assert known is not None and known.is_dead


async def test_a_heartbeat_that_is_no_json_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(RequestCode.HEART_BEAT, body=b"{")
        assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_a_heartbeat_saves_each_table_once_for_all_its_groups() -> None:
    disk = HeldDisk()
    async with serving(Path("/disk/store"), files=disk) as bench:
        await bench.heartbeat("first")
        disk.saved.clear()
        disk.threads.clear()
        groups = [ConsumerData(f"g{n}") for n in range(400)]
        await bench.ask(RequestCode.HEART_BEAT, body=Heartbeat("c", consumers=groups))
        await bench.parts.groups.settled()
        names = sorted(path.name for path in disk.saved)
        tables = ["subscriptionGroup.json", "topics.json"]
        assert names == sorted(tables + [f"{table}.bak" for table in tables])
        assert threading.current_thread() not in disk.threads
        assert bench.parts.topics.find("%RETRY%g399") is not None
