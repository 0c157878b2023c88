"""A name server and a broker that remember which requests were not signed by a user."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from cometmq.broker.broker import Broker
from cometmq.broker.settings import BrokerSettings
from cometmq.namesrv.name_server import NameServer
from cometmq.net.server import RequestHandler, Server, Session
from cometmq.store.settings import StoreSettings
from cometmq.wire.acl import Credentials, signed_fields
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command

USER: Final = Credentials("user", "a secret, not to be shown")
SMALL: Final = StoreSettings(
    mapped_file_size_commit_log=1 << 20, mapped_file_size_consume_queue=20_000, max_index_num=1_000
)
INNER: Final = f'{{"accessKey":"{USER.access_key}","secretKey":"{USER.secret_key}"}}'


class Signatures:
    """Passes requests to another handler.

    Attributes:
        codes: the codes of all requests.
        unsigned: those that ``USER`` has not signed, in words.
    """

    def __init__(self, sound: RequestHandler) -> None:
        self.codes: set[int] = set()
        self.unsigned: list[str] = []
        self._sound = sound

    def handle(self, session: Session, commands: list[Command]) -> None:
        for command in commands:
            if not command.is_response:
                self.codes.add(command.code)
                fields = command.ext_fields
                if fields != signed_fields(fields, command.body, command.version, USER):
                    self.unsigned.append(str(command))
        self._sound.handle(session, commands)

    def closed(self, session: Session) -> None:
        self._sound.closed(session)


@asynccontextmanager
async def listening(handler: RequestHandler) -> AsyncIterator[str]:
    """Run a server for a handler; give its address."""
    server = Server(handler)
    port = await server.start("127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop()


class Watched(NamedTuple):
    """A name server and a broker that remember who has not signed."""

    name_server: str
    broker: str
    at_name_server: Signatures
    at_broker: Signatures

    def check(self, *codes: RequestCode) -> None:
        """Check that these requests have come, and none that is not signed."""
        assert set(codes) <= self.at_name_server.codes | self.at_broker.codes
        assert self.at_name_server.unsigned == self.at_broker.unsigned == []


@asynccontextmanager
async def watching(root: Path) -> AsyncIterator[Watched]:
    at_name_server = Signatures(NameServer())
    async with listening(at_name_server) as name_server:
        settings = BrokerSettings.of(
            broker_name="broker-a",
            listen_port=0,
            namesrv_addr=name_server,
            store_path_root_dir=str(root),
            vip_channel_enable=False,
            inner_client_authentication_credentials=INNER,
        )
        broker = Broker(settings, SMALL, load_kernels=False)
        await broker.start()
        broker.server.handler = at_broker = Signatures(broker.parts.requests)
        broker.server.bulk = None
        try:
            yield Watched(name_server, broker.address, at_name_server, at_broker)
        finally:
            await broker.stop()
