import re
from collections.abc import Callable
from pathlib import Path
from unittest.mock import AsyncMock, patch

import pytest
from tests.fuzzed_broker import NAME, fuzzed_broker
from tests.live import BROKER, serving

from cometmq.admin.cluster import ClusterAdmin, brokers, missing_topic, nearest
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer
from cometmq.errors import NoRoute
from cometmq.message import Message
from cometmq.wire.bodies.group import ConsumerConnections
from cometmq.wire.bodies.route import BrokerData
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import Command
from cometmq.wire.headers import ConsumerGroupHeader


async def test_all_brokers_are_told_with_what_has_come_in(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("Orders")
        async with Producer(live.name_server) as producer:
            await producer.send(Message("Orders", b"x"))
        (line,) = await brokers(admin)
        assert (line.cluster, line.broker_name, line.broker_id) == ("DefaultCluster", BROKER, 0)
        assert (line.address, line.in_today, line.out_today) == (live.broker, 1, 0)
        assert line.disk_ratio is not None and 0 < line.disk_ratio < 1


async def test_a_topic_that_is_not_there_is_told_with_the_one_that_is_most_like_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("orders")
        with pytest.raises(NoRoute) as raised:
            await admin.route("order")
        assert raised.value.topic == "order"
        text = str(await missing_topic(admin, "order"))
        assert f"name server {live.name_server} knows" in text
        assert text.endswith("nearest 'orders'; create it with: cometmq topic create order")
        assert "create it" not in str(await missing_topic(admin, "%DLQ%g"))


def test_names_that_are_nothing_alike_are_not_mixed_up() -> None:
    assert nearest("orders", ["invoices"]) == ""


async def test_masters_that_know_nothing_of_it_are_left_out(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, ClusterAdmin(live.name_server) as cluster:
        code, header = RequestCode.GET_CONSUMER_CONNECTION_LIST, ConsumerGroupHeader("nobody")
        assert await cluster.ask_masters(code, header, ConsumerConnections) == {}


def with_text(name: str, value: str) -> Callable[[Command], Command]:
    """Replace the value of one text of runtime info."""

    def change(answer: Command) -> Command:
        if answer.body.startswith(b'{"table"'):
            answer.body = re.sub(
                rb'"%s":"[^"]*"' % name.encode(), f'"{name}":"{value}"'.encode(), answer.body
            )
        return answer

    return change


@pytest.mark.parametrize(
    ("name", "value"),
    [("putTps", "many"), ("commitLogDiskRatio", "NaN"), ("msgPutTotalTodayNow", "9" * 5_000)],
)
async def test_a_number_that_is_none_is_told_with_its_name(tmp_path: Path, name: str, value: str) -> None:
    async with (
        serving(tmp_path) as live,
        ClusterAdmin(live.name_server) as admin,
        fuzzed_broker(admin, with_text(name, value)),
    ):
        sound, line = await brokers(admin)
        assert sound.trouble is None and line.broker_name == NAME
        assert line.is_unreadable and f"{name} in its runtime info is no number: '{value[:9]}" in str(
            line.trouble
        )


async def test_a_broker_that_has_registered_no_address_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, ClusterAdmin(live.name_server) as admin:
        info = await admin.info()  # of a Java name server, which takes any address
        info.brokers["broker-z"] = BrokerData({0: "nowhere:99999999"}, "broker-z", "DefaultCluster")
        with patch.object(admin, "info", AsyncMock(return_value=info)):
            sound, line = await brokers(admin)
        assert sound.trouble is None and not line.is_unreadable
        assert str(line.trouble).startswith("no connection to nowhere:99999999: ")
