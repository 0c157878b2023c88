"""One broker from end to end: name server, sockets, store."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.broker.conftest import BROKER, SMALL, Client, bodies, pull_header

from cometmq.broker import broker as broker_module
from cometmq.broker.broker import Broker
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.timed.schedule import Schedule
from cometmq.broker.timed.timed_messages import TimedMessages
from cometmq.errors import SettingsError, StoreDamaged
from cometmq.format import layout, record
from cometmq.format.message_id import parse_offset_message_id
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk, Usage
from cometmq.message import MessageQueue
from cometmq.namesrv.name_server import NameServer
from cometmq.store.settings import FlushDiskType, StoreSettings
from cometmq.wire import headers, settings_text
from cometmq.wire.bodies import ClusterInfo, LockRequest, LockResponse, TopicRoute, decode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

PULL = RequestCode.PULL_MESSAGE


@asynccontextmanager
async def running(root: Path, *, sync: bool = False, **settings: object) -> AsyncIterator[Broker]:
    flush = FlushDiskType.SYNC_FLUSH if sync else FlushDiskType.ASYNC_FLUSH
    own = BrokerSettings.of(broker_name=BROKER, listen_port=0, store_path_root_dir=str(root))
    store = StoreSettings(**SMALL, flush_disk_type=flush, message_delay_level="0s 0s 0s")
    broker = Broker(own.changed(**settings), store, load_kernels=False)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


@pytest.fixture(params=["ASYNC_FLUSH", "SYNC_FLUSH"])
def sync(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "SYNC_FLUSH")


async def test_a_client_finds_the_broker_and_a_restart_keeps_all(tmp_path: Path, *, sync: bool) -> None:
    async def first(name_server: NameServer) -> tuple[str, int]:
        async with running(tmp_path, sync=sync, namesrv_addr=name_server.address) as broker:
            cluster = await Client.open(name_server.address)
            answer = await cluster.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
            assert decode(ClusterInfo, answer.body).brokers[BROKER].addrs == {0: broker.address}

            client = await Client.open(broker.address)
            held = client.ask_later(PULL, pull_header("T", tags="TagA", wait_ms=15_000))
            assert (await held).code == ResponseCode.TOPIC_NOT_EXIST
            first = await client.send("T", b"0", TAGS="TagA", KEYS="k0", UNIQ_KEY="u0")
            async with asyncio.timeout(60):
                while (await route_of(cluster, "T")).code != ResponseCode.SUCCESS:
                    continue
            route = decode(TopicRoute, (await route_of(cluster, "T")).body)
            assert route.queues[0].write_queue_count == 4

            assert bodies(await client.ask(PULL, pull_header("T", tags="TagA"))) == [b"0"]
            held = client.ask_later(PULL, pull_header("T", 1, tags="TagA", wait_ms=15_000))
            await client.send("T", b"1", TAGS="TagB")
            await client.send("T", b"2", TAGS="TagA")
            assert bodies(await held) == [b"2"]

            await client.heartbeat("cg", "T")
            notice = await asyncio.wait_for(client.told.get(), 60)
            assert notice.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
            lock = LockRequest("c", "cg", [MessageQueue("T", BROKER, 0)])
            locked = await client.ask(RequestCode.LOCK_BATCH_MQ, body=lock)
            assert decode(LockResponse, locked.body).queues == lock.queues
            await client.ask(RequestCode.UNLOCK_BATCH_MQ, body=lock)

            at = parse_offset_message_id(first.ext_fields["msgId"]).physical_offset
            back = headers.SendBackHeader(physical_offset=at, group="cg", delay_level=0)
            assert (await client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)).code == ResponseCode.SUCCESS
            commit = headers.UpdateConsumerOffsetHeader("cg", "T", 0, 2)
            await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
            await client.connection.close()
            await cluster.connection.close()
            return first.ext_fields["msgId"], at

    async def second(at: int) -> None:
        async with running(tmp_path, sync=sync) as broker:
            client = await Client.open(broker.address)
            assert bodies(await client.ask(PULL, pull_header("T"))) == [b"0", b"1", b"2"]
            retried = await client.ask(PULL, pull_header("%RETRY%cg", wait_ms=10_000))
            assert bodies(retried) == [b"0"]
            committed = headers.QueryConsumerOffsetHeader("cg", "T", 0)
            answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, committed)
            assert answer.ext_fields["offset"] == "2"
            by_id = await client.ask(RequestCode.VIEW_MESSAGE_BY_ID, headers.ViewMessageHeader(at))
            assert bodies(by_id) == [b"0"]
            by_key = headers.QueryMessageHeader("T", "k0", 32, 0, 2**62)
            for key in ("k0", "u0"):
                found = await client.ask(RequestCode.QUERY_MESSAGE, replace(by_key, key=key))
                assert bodies(found) == [b"0"]
            assert (await client.send("T", b"3")).ext_fields["queueOffset"] == "3"
            await client.connection.close()

    async def main() -> None:
        name_server = NameServer(port=0)
        await name_server.start()
        _, at = await first(name_server)
        await name_server.stop()
        await second(at)

    await main()


async def test_the_files_of_a_deleted_topic_are_removed_soon(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_module, "TICK_MS", 10)
    async with running(tmp_path) as broker:
        client = await Client.open(broker.address)
        removed, loop = asyncio.Event(), asyncio.get_running_loop()
        remove = broker.store.deletions.remove_files

        def remove_in_thread() -> None:
            remove()
            loop.call_soon_threadsafe(removed.set)

        monkeypatch.setattr(broker.store.deletions, "remove_files", remove_in_thread)
        for queue_id in range(3):
            await client.send("T", queue_id=queue_id)
        broker.store._queues.write_back()
        assert (await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, headers.TopicHeader("T"))).code == 0
        place = layout.deleted_dir(layout.consume_queues_dir(tmp_path))
        assert not layout.topic_dir(tmp_path, "T").exists()
        await removed.wait()
        assert list(place.iterdir()) == []
        await client.connection.close()
    assert not place.exists()


async def route_of(name_server: Client, topic: str) -> Command:
    return await name_server.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.GetRouteHeader(topic))


async def test_offsets_are_saved_while_the_broker_runs(tmp_path: Path) -> None:
    async with running(tmp_path, flush_consumer_offset_interval=1) as broker:
        client = await Client.open(broker.address)
        await client.send("T")
        commit = headers.UpdateConsumerOffsetHeader("cg", "T", 0, 1)
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
        path = tmp_path / "config" / "consumerOffset.json"
        async with asyncio.timeout(60):
            while not path.exists() or '"T@cg"' not in path.read_text():
                await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        await client.connection.close()


async def test_old_clients_and_the_dashboard_find_the_vip_port(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        assert broker.vip_port == broker.port - 2
        client = await Client.open(f"127.0.0.1:{broker.vip_port}")
        assert (await client.send("T")).code == ResponseCode.SUCCESS
        await client.connection.close()


async def test_a_vip_port_that_is_in_use_is_said_and_the_start_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(tmp_path / "a", vip_channel_enable=False) as first:
        assert first.vip_port is None
        async with running(tmp_path / "b", listen_port=first.port + 2) as second:
            assert second.vip_port is None
            client = await Client.open(second.address)
            assert (await client.send("T")).code == ResponseCode.SUCCESS
            await client.connection.close()
    told = [record.message for record in caplog.records if "VIP port" in record.message]
    assert len(told) == 1 and f":{first.port}: another service" in told[0]


async def test_below_the_first_port_there_is_no_vip_port(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("cometmq.broker.broker.VIP_PORT_BELOW", 65_535)
    async with running(tmp_path) as broker:
        assert broker.vip_port is None
    assert "there is no port -" in caplog.text


async def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running(tmp_path / "a") as broker:
        with pytest.raises(SettingsError, match="another service of this process listens there"):
            async with running(tmp_path / "b", listen_port=broker.port):
                pass
    path = tmp_path / "b" / "config" / "topics.json"
    path.parent.mkdir()
    path.write_text('{"topicConfigTable":5}')
    with pytest.raises(StoreDamaged, match=r"topics\.json"):
        async with running(tmp_path / "b"):
            pass
    path.unlink()
    async with running(tmp_path / "b"):
        pass


async def test_a_broker_that_strangers_could_use_does_not_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot listen on 0\.0\.0\.0: other machines could reach it"):
        async with running(tmp_path / "store", bind_address="0.0.0.0"):
            pass
    assert not (tmp_path / "store").exists()


async def test_a_broker_alone_does_not_start_under_a_controller(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="only `cometmq broker` runs under a controller"):
        async with running(tmp_path, enable_controller_mode=True, controller_addr="127.0.0.1:1"):
            pass


async def test_garbage_on_one_connection_does_not_harm_another(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await Client.open(broker.address)
        for garbage in (b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x00\x00\x00\x40\x00\x00\x00\x10{"):
            reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
            writer.write(garbage)
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
            await writer.wait_closed()
            assert (await client.send("T")).code == ResponseCode.SUCCESS
        await client.connection.close()


class Gauge(Disk):
    """A disk that is as full as a test says, in percent."""

    percent = 0

    def usage(self, path: Path) -> Usage:  # noqa: ARG002 - it is one disk
        return Usage(self.percent, 100 - self.percent)


async def test_a_broker_removes_old_files_when_the_disk_fills_up_and_takes_no_messages_when_it_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(broker_module, "TICK_MS", 10)
    clock, disk = ManualClock(), Gauge()
    own = BrokerSettings.of(broker_name=BROKER, listen_port=0, store_path_root_dir=str(tmp_path))
    store = StoreSettings(**SMALL | {"mapped_file_size_commit_log": 8_192}, clean_resource_interval=1_000)
    log = layout.commitlog_dir(tmp_path)

    async def until_sent(client: Client, code: ResponseCode) -> str | None:
        async with asyncio.timeout(60):
            while (answer := await client.send("T", bytes(900))).code != code:
                clock.advance(1_000)
        return answer.remark

    async def main() -> None:
        broker = Broker(own, store, clock=clock, files=disk, load_kernels=False)
        await broker.start()
        try:
            client = await Client.open(broker.address)
            for _ in range(40):
                await client.send("T", bytes(900))
            clock.advance(60_000)
            disk.percent = 86
            async with asyncio.timeout(60):
                while len(list(log.iterdir())) > 1:
                    clock.advance(1_000)
                    await asyncio.sleep(0.01)
            disk.percent = 91
            remark = await until_sent(client, ResponseCode.SERVICE_NOT_AVAILABLE)
            assert remark is not None and remark.startswith(f"disk 91 % full under {log}")
            offset = 0
            while not (answer := await client.ask(PULL, pull_header("T", offset))).body:
                assert answer.code in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_RETRY_IMMEDIATELY)
                assert int(answer.ext_fields["nextBeginOffset"]) > offset
                offset = int(answer.ext_fields["nextBeginOffset"])
            assert next(record.decode_many(answer.body)).queue_offset > 0
            disk.percent = 85
            await until_sent(client, ResponseCode.SUCCESS)
            await client.connection.close()
        finally:
            await broker.stop()

    await main()


async def test_a_setting_that_was_changed_at_run_time_holds_after_a_restart(tmp_path: Path) -> None:
    async def ask(broker: Broker, code: RequestCode, body: bytes = b"") -> Command:
        client = await Client.open(broker.address)
        answer = await client.ask(code, body=body)
        await client.connection.close()
        return answer

    async with running(tmp_path) as broker:
        body = b"autoCreateTopicEnable=false\nfileReservedTime=24\n"
        assert (await ask(broker, RequestCode.UPDATE_BROKER_CONFIG, body)).code == ResponseCode.SUCCESS
    async with running(tmp_path) as broker:
        shown = settings_text.decode((await ask(broker, RequestCode.GET_BROKER_CONFIG)).body)
        assert (shown["autoCreateTopicEnable"], shown["fileReservedTime"]) == ("false", "24")
        assert broker.store.settings.file_reserved_time == 24
        assert broker.parts.topics.find("TBW102") is None
    path = layout.config_path(tmp_path, "changedSettings")
    path.write_text(path.read_text().replace("24", "-1"))
    with pytest.raises(SettingsError, match=r"changedSettings.json: setting fileReservedTime = '-1'"):
        async with running(tmp_path):
            pass


async def test_an_idle_broker_does_nothing_about_delayed_and_timed_messages_until_one_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looked at the queues of 18 levels ten times a second, in which nobody waited."""
    calls: Counter[str] = Counter()

    def counted(owner: type, name: str) -> None:
        real = getattr(owner, name)

        def call(*args: Any) -> Any:
            calls[name] += 1
            return real(*args)

        monkeypatch.setattr(owner, name, call)

    counted(Schedule, "deliver")
    counted(TimedMessages, "wait_ms")
    loop = asyncio.get_running_loop()
    machine, ahead_s = loop.time, 0
    monkeypatch.setattr(loop, "time", lambda: machine() + ahead_s)
    async with running(tmp_path) as broker:
        await asyncio.sleep(0)
        assert calls == {"deliver": 1, "wait_ms": 1}, "what waits since before the start"
        for ahead_s in range(1, 600):  # noqa: B007 - the loop's clock reads it
            await asyncio.sleep(0)
        assert calls == {"deliver": 1, "wait_ms": 1}
        client = await Client.open(broker.address)
        await client.send("T", b"late", DELAY="1")
        assert bodies(await client.ask(PULL, pull_header("T", wait_ms=10_000))) == [b"late"]
        assert calls["deliver"] <= 4
        await client.connection.close()


async def test_a_timed_message_that_comes_as_a_round_ends_begins_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, rounds, goes_on = TimedMessages.round, 0, asyncio.Event()

    async def round_(timed: TimedMessages) -> None:
        nonlocal rounds
        rounds += 1
        await real(timed)
        if rounds == 1:
            await client.send("T", b"second", TIMER_DELAY_SEC="100")
        else:
            goes_on.set()

    monkeypatch.setattr(TimedMessages, "round", round_)
    async with running(tmp_path) as broker:
        client = await Client.open(broker.address)
        await client.send("T", b"first", TIMER_DELAY_SEC="100")
        async with asyncio.timeout(60):
            await goes_on.wait()
        await client.connection.close()
