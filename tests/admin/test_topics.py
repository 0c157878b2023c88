"""Making, listing and removing topics of a live cluster."""

from pathlib import Path

import pytest
from tests.live import BROKER, serving

from cometmq import errors
from cometmq.admin.topics import TopicAdmin, TopicOnBroker
from cometmq.client import Producer, PullConsumer
from cometmq.message import Message, MessageQueue
from cometmq.namesrv.name_server import NameServer
from cometmq.net.address import free_port
from cometmq.wire.bodies import Registration, TopicConfig, TopicTable
from cometmq.wire.bodies.body import LIMITS, encode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import RegisterBrokerHeader


async def test_a_topic_is_made_with_its_queues_and_can_be_used_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        assert await admin.create("Orders", queues=3) == [BROKER]
        assert "Orders" in await admin.topics()
        assert TopicOnBroker("Orders", BROKER, 3, 3, 6) in await admin.lines()
        queues = (await admin.route("Orders")).publish_queues()
        assert queues == [MessageQueue("Orders", BROKER, queue_id) for queue_id in range(3)]
        async with Producer(live.name_server) as producer:
            await producer.send(Message("Orders", b"x"))


async def test_a_topic_that_is_there_is_changed(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("Orders", queues=3)
        assert len((await admin.route("Orders")).publish_queues()) == 3
        await admin.create("Orders", queues=5, perm=4)
        assert [line for line in await admin.lines() if line.topic == "Orders"] == [
            TopicOnBroker("Orders", BROKER, 5, 5, 4)
        ]


async def test_names_are_sorted_and_lines_cover_each_of_them(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        for topic in ("b", "a", "c"):
            await admin.create(topic)
        names = await admin.topics()
        assert names == sorted(names) and {"a", "b", "c"} <= set(names)
        assert {line.topic for line in await admin.lines()} == set(names)


async def test_a_deleted_topic_is_gone_with_its_messages_and_can_be_made_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("Orders", queues=1)
        async with Producer(live.name_server) as producer:
            await producer.send(Message("Orders", b"old"))
        assert await admin.delete("Orders") == [BROKER]
        assert "Orders" not in await admin.topics()
        with pytest.raises(errors.NoRoute):
            await admin.route("Orders")
        await admin.create("Orders", queues=1)
        async with PullConsumer(live.name_server, "readers") as consumer:
            (queue,) = await consumer.queues("Orders")
            assert [message async for message in consumer.messages(queue)] == []


async def test_a_name_that_cannot_be_is_refused_before_anyone_is_asked() -> None:
    async with TopicAdmin(f"127.0.0.1:{free_port()}") as admin:
        for name in ("", "a/b", "..", "x" * 128):
            with pytest.raises(errors.IllegalName):
                await admin.create(name)
            with pytest.raises(errors.IllegalName):
                await admin.delete(name)


async def test_what_the_broker_refuses_is_told_in_its_words(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        with pytest.raises(errors.RemoteError, match="perm 9"):
            await admin.create("Orders", perm=9)
        with pytest.raises(errors.RemoteError, match="readQueueNums 70000"):
            await admin.create("Orders", queues=70_000)


async def test_a_name_server_without_brokers_says_what_to_do() -> None:
    server = NameServer(port=0)
    await server.start()
    try:
        async with TopicAdmin(server.address) as admin:
            with pytest.raises(errors.NoBroker, match="knows no broker: start a broker with namesrvAddr"):
                await admin.create("Orders")
            assert (await admin.info()).brokers == {}, "who asks for the brokers alone judges for itself"
    finally:
        await server.stop()


async def test_any_of_the_name_servers_will_do_to_make_a_topic(tmp_path: Path) -> None:
    async with (
        serving(tmp_path) as live,
        TopicAdmin(f"127.0.0.1:{free_port()};{live.name_server}") as admin,
    ):
        assert await admin.create("Orders") == [BROKER]
        assert "Orders" in await admin.topics()


async def test_without_name_servers_the_error_names_them() -> None:
    port = free_port()
    async with TopicAdmin(f"127.0.0.1:{port}") as admin:
        with pytest.raises(errors.NetworkError, match=f"no name server answers: .*{port}"):
            await admin.topics()


async def test_those_that_brokers_make_by_themselves_can_be_left_out(tmp_path: Path) -> None:
    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        for topic in ("orders", "%RETRY%billing", "%DLQ%billing", "reminders"):
            await admin.create(topic)
        everything = {line.topic for line in await admin.lines()}
        assert {line.topic for line in await admin.lines(own_only=True)} == {"orders", "reminders"}
        assert len(everything) > 10


async def test_a_topic_of_more_queues_than_can_be_is_left_out_of_lists() -> None:
    name_server = NameServer(port=0, limits=LIMITS._replace(topic_queues=2**31 - 1, route_queues=2**40))
    await name_server.start()
    try:
        topics = {"Orders": TopicConfig("Orders", 1, 1), "Bills": TopicConfig("Bills", 2**31 - 1, 1)}
        header = RegisterBrokerHeader("a", "192.0.2.1:1", "c", 0, "192.0.2.1:2")
        name_server.routes.register(header, Registration([], TopicTable(topics=topics)), "link", 0)
        async with TopicAdmin(name_server.address) as admin:
            assert await admin.lines() == [TopicOnBroker("Orders", "a", 1, 1, 6)]
            with pytest.raises(errors.FormatError, match="topic 'Bills' has 2147483647 queues to read"):
                await admin.route("Bills")
    finally:
        await name_server.stop()


async def test_settings_of_more_queues_than_can_be_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def answer(*_: object, **__: object) -> Command:
        return response(Command(1), body=encode(TopicConfig("Orders", 4, 2**31 - 1)))

    async with serving(tmp_path) as live, TopicAdmin(live.name_server) as admin:
        await admin.create("Orders")
        monkeypatch.setattr(admin, "ask", answer)
        what = "topic 'Orders' has 2147483647 queues to write, not 0 to 65535: set fewer"
        with pytest.raises(
            errors.UnreadableAnswer, match=f"{live.broker} answers what cannot be read: {what}"
        ):
            await admin.update("Orders", queues=8)
