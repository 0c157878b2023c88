"""A running broker as Prometheus and those that check its health see it."""

import asyncio
import errno
import os
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import BROKER, SMALL, Client, bodies, pull_header, send_header
from tests.broker.metrics.reference import REFERENCE
from tests.broker.metrics.scraped import OF_ALL_SERIES, ask, scrape

from cometmq.broker.broker import Broker
from cometmq.broker.metrics.families import FAMILIES
from cometmq.broker.name_servers.registration import NameServers
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.settings_by_subject import MetricsExporter
from cometmq.io.files import Disk
from cometmq.namesrv.name_server import NameServer
from cometmq.net.address import free_port, parse_address
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode, ResponseCode

SENDERS = 4
EACH = 300


def broker_of(root: Path, *, files: Disk | None = None, **settings: Any) -> Broker:
    own = BrokerSettings.of(
        broker_name=BROKER,
        listen_port=0,
        vip_channel_enable=False,
        store_path_root_dir=str(root),
        metrics_exporter_type=MetricsExporter.PROM,
        metrics_prom_exporter_port=0,
        **settings,
    )
    return Broker(own, StoreSettings(**SMALL), files=files, load_kernels=False)


@asynccontextmanager
async def running(root: Path, **settings: Any) -> AsyncIterator[Broker]:
    broker = broker_of(root, **settings)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


def address_of(broker: Broker) -> str:
    assert broker.metrics_address is not None
    return broker.metrics_address


async def send(client: Client, topic: str, count: int) -> None:
    for number in range(count):
        header = send_header(topic, number % 4)
        sent = await client.ask(RequestCode.SEND_MESSAGE_V2, header, b"x" * (number % 50 + 1))
        assert sent.code == ResponseCode.SUCCESS, sent


async def pull_all(client: Client, topic: str) -> int:
    count = 0
    for queue_id in range(4):
        offset = 0
        header = pull_header(topic, offset, queue_id=queue_id)
        while got := len(bodies(await client.ask(RequestCode.PULL_MESSAGE, header))):
            offset += got
            header = pull_header(topic, offset, queue_id=queue_id)
        count += offset
    return count


async def test_values_equal_what_was_sent_and_pulled_while_scrapes_ran(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        clients = [await Client.open(broker.address) for _ in range(SENDERS)]
        sending = asyncio.gather(*(send(client, f"T{at}", EACH) for at, client in enumerate(clients)))
        seen = [0.0]
        while not sending.done():
            found = await scrape(address_of(broker))
            seen.append(sum(found.values("rocketmq_messages_in_total")))
            assert found.value("cometmq_messages_stored_total") >= seen[-1]
        assert seen == sorted(seen) and len(set(seen)) > 2  # counters never fall
        assert await pull_all(clients[0], "T0") == EACH

        found = await scrape(address_of(broker))
        for at in range(SENDERS):
            labels = {"topic": f"T{at}", "message_type": "normal", "is_system": "false", "node_id": BROKER}
            assert found.value("rocketmq_messages_in_total", **labels) == EACH
        written = broker.store.committed_offset
        assert sum(found.values("rocketmq_throughput_in_total")) == written
        assert found.value("cometmq_stored_bytes_total") == written
        assert found.value("rocketmq_storage_size_bytes") == written
        of_group = {"topic": "T0", "consumer_group": "cg"}
        assert found.value("rocketmq_messages_out_total", **of_group) == EACH
        assert found.value("rocketmq_throughput_out_total", **of_group) == found.value(
            "rocketmq_throughput_in_total", topic="T0"
        )
        assert found.value("cometmq_messages_delivered_total") == EACH
        assert found.value("cometmq_send_latency_milliseconds_count") == SENDERS * EACH
        assert found.value("cometmq_send_latency_milliseconds_bucket", le="+Inf") == SENDERS * EACH
        assert found.value("cometmq_connections") == SENDERS
        for client in clients:
            await client.connection.close()


async def test_each_series_is_of_a_declared_family_with_its_labels(tmp_path: Path) -> None:
    async with running(tmp_path, metrics_label="zone:a") as broker:
        client = await Client.open(broker.address)
        await send(client, "T", 8)
        await client.heartbeat("cg", "T")
        await pull_all(client, "T")
        await send(client, "%DLQ%cg", 1)
        found = await scrape(address_of(broker))
        await client.connection.close()
    declared = {family.name: family for family in FAMILIES}
    shown: Counter[str] = Counter()
    for family in found.families:
        if family.name.startswith("process_"):
            continue
        for sample in family.samples:
            name = sample.name if sample.name in declared else family.name
            own = sample.labels.keys() - OF_ALL_SERIES - {"zone", "le"}
            assert own == set(declared[name].labels) and sample.labels["zone"] == "a"
            assert family.type == declared[name].kind.value
            assert name not in REFERENCE or own == REFERENCE[name].labels
            shown[name] += 1
    assert len(shown) > 30
    assert {"rocketmq_consumer_lag_messages", "rocketmq_consumer_connections"} <= shown.keys()


async def test_members_of_groups_are_counted_by_language_and_release(tmp_path: Path) -> None:
    async with running(tmp_path) as broker:
        client = await Client.open(broker.address)
        await client.heartbeat("cg", "T")
        found = await scrape(address_of(broker))
        labels = {
            "consumer_group": "cg",
            "consume_mode": "push",
            "protocol_type": "remoting",
            "language": "python",
        }
        assert found.value("rocketmq_consumer_connections", **labels) == 1
        await client.connection.close()


async def test_more_topics_than_the_limit_are_one_series(tmp_path: Path) -> None:
    async with running(tmp_path, metrics_otel_cardinality_limit=3) as broker:
        client = await Client.open(broker.address)
        for number in range(6):
            await send(client, f"T{number}", 2)
        found = await scrape(address_of(broker))
        assert sorted(found.values("rocketmq_messages_in_total")) == [2, 2, 8]
        assert found.values("rocketmq_messages_in_total", otel_metric_overflow="true") == [8]
        assert found.value("cometmq_metrics_folded_series", metric="rocketmq_messages_in_total") == 4
        await client.connection.close()


async def test_who_does_not_ask_in_the_time_of_the_settings_is_closed(tmp_path: Path) -> None:
    async with running(tmp_path, metrics_request_timeout_ms=100) as broker, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(*parse_address(address_of(broker)))
        assert await reader.read() == b""
        writer.close()


async def test_a_broker_without_the_setting_listens_nowhere(tmp_path: Path) -> None:
    broker = Broker(
        BrokerSettings.of(listen_port=0, vip_channel_enable=False, store_path_root_dir=str(tmp_path)),
        load_kernels=False,
    )
    await broker.start()
    assert broker.metrics_address is None
    await broker.stop()


async def test_a_broker_that_recovers_is_alive_and_not_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate, open_store = threading.Event(), MessageStore.open

    def slow_open(*arguments: Any, **named: Any) -> MessageStore:
        assert gate.wait(60)
        return open_store(*arguments, **named)

    monkeypatch.setattr(MessageStore, "open", slow_open)
    broker = broker_of(tmp_path)
    starting = asyncio.create_task(broker.start())
    async with asyncio.timeout(60):
        while not broker.metrics_address:  # noqa: ASYNC110  an attribute has no event
            await asyncio.sleep(0.01)
    address = broker.metrics_address
    assert (await ask(address, "/healthz")).status == 200
    ready = await ask(address, "/readyz")
    assert ready.status == 503 and ready.text == "recovering: the store is being opened\n"
    assert (await ask(address, "/metrics")).status == 200
    gate.set()
    await starting
    assert (await ask(address, "/readyz")).text == "ready\n"
    await broker.stop()


async def test_a_broker_that_no_name_server_knows_is_not_ready_until_one_does(tmp_path: Path) -> None:
    port = free_port()
    async with running(tmp_path, namesrv_addr=f"127.0.0.1:{port}") as broker:
        ready = await ask(address_of(broker), "/readyz")
        assert ready.status == 503
        assert ready.text == f"not registered with a name server: 127.0.0.1:{port}\n"
        found = await scrape(address_of(broker))
        assert found.value("cometmq_name_servers", state="configured") == 1
        assert found.value("cometmq_name_servers", state="registered") == 0
        name_server = NameServer(port=port)
        await name_server.start()
        async with asyncio.timeout(60):
            while (await ask(address_of(broker), "/readyz")).status != 200:  # noqa: ASYNC110  nor has HTTP
                await asyncio.sleep(0.05)
        await name_server.stop()


class ReadOnlyDisk(Disk):
    """A disk that was mounted read-only after an error, as Linux does it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read_only = False

    def save(self, path: Path, data: bytes) -> None:
        if self.is_read_only:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        super().save(path, data)


async def test_a_broker_whose_disk_became_read_only_is_not_ready(tmp_path: Path) -> None:
    files = ReadOnlyDisk()
    async with running(tmp_path, files=files, flush_consumer_offset_interval=50) as broker:
        files.is_read_only = True
        broker.parts.offsets.commit("cg", "T", 0, 0)
        async with asyncio.timeout(60):
            while (await ask(address_of(broker), "/readyz")).status == 200:  # noqa: ASYNC110  nor has HTTP
                await asyncio.sleep(0.05)
        ready = await ask(address_of(broker), "/readyz")
        assert "disk: " in ready.text and os.strerror(errno.EROFS) in ready.text
        found = await scrape(address_of(broker))
        assert found.value("cometmq_store_failed_writes") >= 1
        files.is_read_only = False


async def test_a_broker_that_stops_is_not_ready(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    stop = NameServers.stop

    async def slow_stop(name_servers: NameServers) -> None:
        seen.append((await ask(address_of(broker), "/readyz")).text)
        await stop(name_servers)

    monkeypatch.setattr(NameServers, "stop", slow_stop)
    async with running(tmp_path) as broker:
        pass
    assert seen == ["stopping\n"]
