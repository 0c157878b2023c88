"""Masters and slaves in this process: real sockets, real files, a name server."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.broker.conftest import SMALL, WAIT_S, Client

from cometmq.broker.broker import Broker
from cometmq.broker.settings import BrokerSettings
from cometmq.format import layout
from cometmq.namesrv.name_server import NameServer
from cometmq.replication.settings import BrokerRole
from cometmq.store.settings import StoreSettings
from cometmq.wire.bodies import decode
from cometmq.wire.bodies.stats import ReplicationStatus
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers import RegisterBrokerResponseHeader

NAME = "pair"
BOTH: dict[str, Any] = {
    "broker_name": NAME,
    "listen_port": 0,
    "vip_channel_enable": False,
    "ha_send_heartbeat_interval": 200,
}


@asynccontextmanager
async def name_server(*, acting_masters: bool = False) -> AsyncIterator[str]:
    server = NameServer(port=0, acting_masters=acting_masters)
    await server.start()
    try:
        yield server.address
    finally:
        await server.stop()


@asynccontextmanager
async def running(
    root: Path, names: str, store: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Broker]:
    """Run a broker under ``root``, a master unless the settings say otherwise."""
    own = BrokerSettings.of(store_path_root_dir=str(root), namesrv_addr=names, **BOTH | settings)
    broker = Broker(own, StoreSettings(**SMALL | (store or {})), load_kernels=False)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


@asynccontextmanager
async def slave(
    root: Path, names: str, store: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Broker]:
    """Run a slave that can be read."""
    of_slave = {"broker_role": BrokerRole.SLAVE, "broker_id": 1, "slave_read_enable": True}
    async with running(root, names, store, **of_slave | settings) as broker:
        yield broker


@asynccontextmanager
async def client_of(broker: Broker) -> AsyncIterator[Client]:
    client = await Client.open(broker.address)
    try:
        yield client
    finally:
        await client.connection.close()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110  what two brokers have has no event
            await asyncio.sleep(0.01)


async def caught_up(master: Broker, follower: Broker) -> None:
    """Wait until a slave has all that its master has, and can be read."""
    await until(
        lambda: (
            follower.store.dispatched_offset == follower.store.written_offset == master.store.written_offset
        )
    )


async def status_of(client: Client) -> ReplicationStatus:
    answer = await client.ask(RequestCode.GET_BROKER_HA_STATUS)
    return decode(ReplicationStatus, answer.body)


def log_bytes(root: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of each CommitLog file."""
    for path in sorted(layout.commitlog_dir(root).iterdir()):
        yield path.name, path.read_bytes()


@asynccontextmanager
async def pair(
    root: Path, master: dict[str, Any] | None = None, follower: dict[str, Any] | None = None
) -> AsyncIterator[tuple[Broker, Broker, Client, Client]]:
    """Run a master and a slave; yield both, and a client of each."""
    async with (
        name_server() as names,
        running(root / "m", names, **master or {}) as leads,
        slave(root / "s", names, **follower or {}) as follows,
        client_of(leads) as of_master,
        client_of(follows) as of_slave,
    ):
        await until(lambda: bool(leads.parts.replication.acks.by_slave))
        yield leads, follows, of_master, of_slave


def answer_of(master: Broker) -> RegisterBrokerResponseHeader:
    """Return what a name server answers to a slave, without waiting for its next registration."""
    return RegisterBrokerResponseHeader(f"127.0.0.1:{master.parts.replication.port}", master.address)


def acked(master: Broker) -> int:
    """Return what the only slave has acknowledged."""
    return next(iter(master.parts.replication.acks.by_slave.values()), -1)
