"""Brokers under a controller in this process: real stores and sockets, the tests' own controller."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.broker.conftest import SMALL, Client
from tests.interop.ports import free_port
from tests.kit.controllers import MEMBERS, Controller
from tests.replication.conftest import until

from cometmq.broker.broker import Broker
from cometmq.broker.failover.switching import SwitchingBroker
from cometmq.broker.settings import BrokerSettings
from cometmq.store.settings import StoreSettings
from cometmq.wire.bodies import encode
from cometmq.wire.bodies.controller import SyncStateSet
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import fields
from cometmq.wire.headers.controller import MasterHeader

BOTH: dict[str, Any] = {
    "broker_name": MEMBERS.broker_name,
    "vip_channel_enable": False,
    "ha_send_heartbeat_interval": 200,
    "ha_listen_port": 0,
    "slave_read_enable": True,
    "enable_controller_mode": True,
    "all_ack_in_sync_state_set": True,
}


def switching(
    root: Path, names: str, controller: Controller, *, pool: bool = False, **settings: Any
) -> SwitchingBroker:
    """Build a broker with its store under ``root``."""
    own = {
        "listen_port": free_port(),
        "namesrv_addr": names,
        "controller_addr": controller.address,
        "store_path_root_dir": str(root),
    }
    both = (
        BrokerSettings.of(**BOTH | own | settings),
        StoreSettings(**SMALL, transient_store_pool_enable=pool),
    )
    return SwitchingBroker(*both, load_kernels=False)


@asynccontextmanager
async def started(
    root: Path, names: str, controller: Controller, **settings: Any
) -> AsyncIterator[SwitchingBroker]:
    """Run a broker until it has a role, and then on."""
    broker = switching(root, names, controller, **settings)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


def running(switched: SwitchingBroker) -> Broker:
    """Return the broker in its present role."""
    assert switched.running is not None
    return switched.running


async def until_role(switched: SwitchingBroker, *, is_slave: bool, epoch: int) -> Broker:
    """Wait until a broker has a role in an epoch, and return it."""

    def has_it() -> bool:
        found = switched.running
        if found is None or found.parts.replication.is_slave != is_slave:
            return False
        return found.parts.topics.data_version.state_version == epoch

    await until(has_it)
    return running(switched)


async def tell(switched: SwitchingBroker) -> None:
    """Send a broker a notice of another master, which it does not believe: it asks the controller."""
    client = await Client.open(switched.address)
    header = MasterHeader(99, "127.0.0.1:1", 2**30, 1)
    body = encode(SyncStateSet(frozenset({99}), 1))
    command = Command(RequestCode.NOTIFY_BROKER_ROLE_CHANGED, ext_fields=fields(header), body=body)
    client.connection.oneway(command)
    await client.connection.drained()
    await client.connection.close()
