"""A broker that checks its requests, and clients that sign theirs: what the tests of checks share."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.broker.conftest import BROKER, SMALL, Client

from cometmq.access.policies import Acl, PolicyEntry
from cometmq.access.users import User
from cometmq.broker.broker import Broker
from cometmq.broker.settings import BrokerSettings
from cometmq.net.connection import Connection
from cometmq.store.settings import StoreSettings
from cometmq.wire.acl import Credentials
from cometmq.wire.frame import Command

ROOT_USER: Final = '{"username":"root","password":"root\'s secret"}'
ROOT: Final = Credentials("root", "root's secret")
ANN: Final = Credentials("ann", "ann's secret")


@asynccontextmanager
async def checking(root: Path, **settings: Any) -> AsyncIterator[Broker]:
    """Run a broker with the super user root, and the user ann who may do nothing yet."""
    own = BrokerSettings.of(
        broker_name=BROKER,
        listen_port=0,
        store_path_root_dir=str(root),
        init_authentication_user=ROOT_USER,
        **{"authentication_enabled": True, "authorization_enabled": True} | settings,
    )
    broker = Broker(own, StoreSettings(**SMALL), load_kernels=False)
    await broker.start()
    assert broker.parts.users is not None
    broker.parts.users.directory.create(User(ANN.access_key, ANN.secret_key))
    try:
        yield broker
    finally:
        await broker.stop()


def allow(broker: Broker, resource: str, *actions: str, sources: Sequence[str] = ()) -> None:
    """Allow ann something."""
    assert broker.parts.users is not None
    entry = PolicyEntry.parse(resource, actions, sources, "Allow")
    broker.parts.users.directory.put_acl(Acl(ANN.access_key, (entry,)))


@asynccontextmanager
async def client_of(broker: Broker, credentials: Credentials | None) -> AsyncIterator[Client]:
    """Connect a client that signs its requests, or does not."""
    told: asyncio.Queue[Command] = asyncio.Queue()
    connection = await Connection.open(
        broker.address, lambda _, command: told.put_nowait(command), credentials=credentials
    )
    try:
        yield Client(connection, told)
    finally:
        await connection.close()
