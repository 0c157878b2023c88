"""A name server as part of a process: sockets and clock around the route table."""

import asyncio
from functools import partial
from pathlib import Path
from typing import Final

from cometmq.io.clock import Clock, SystemClock
from cometmq.io.files import FileLayer
from cometmq.logs import get_logger
from cometmq.namesrv.access import FOR_ALL, NameServerAccess, NameServerGuard
from cometmq.namesrv.kv_config import KvConfig
from cometmq.namesrv.requests import ORDER_SETTING, SETTINGS_NAMESPACE, NameServerRequests, Registering
from cometmq.namesrv.routes import RouteTable
from cometmq.net.address import address_text
from cometmq.net.boundary import attempt
from cometmq.net.exposure import check_exposure
from cometmq.net.guarded import Guarded
from cometmq.net.server import Server, Session
from cometmq.net.session import IDLE_MS_MAX
from cometmq.net.tls.server import server_tls
from cometmq.net.tls.settings import TlsSettings
from cometmq.wire.bodies import BodyLimits, Registration
from cometmq.wire.bodies.body import LIMITS
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, response

PORT: Final = 9876
EXPIRY_INTERVAL_MS: Final = 5_000
CONFIG_CHANGES: Final = frozenset(
    {RequestCode.PUT_KV_CONFIG, RequestCode.DELETE_KV_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG}
)

_log = get_logger(__name__)


class NameServer:
    """A name server on ``host:port``.

    Args:
        host: the address to listen on; the default cannot be reached from other machines.
        port: 0 for any free one; after ``start`` the attribute ``port`` is the actual one.
        clock: measures how long brokers are silent.
        kv_config_path: file of operators' texts (``kvConfig.json``); None keeps them in memory.
        files: the file layer for that file.
        order_messages: whether routes contain the order of queues (RocketMQ: ``orderMessageEnable``); an
            operator's change at run time, saved in the file, comes first.
        acting_masters: whether a slave is the master of routes, for readers, while there is none (RocketMQ:
            ``supportActingMaster``), if its brokers have ``enableSlaveActingMaster``.
        limits: the limits of request bodies, and of what brokers register.
        access: who may use it; by default everybody who reaches it, which is this machine.
        tls: whether connections are TLS, and with which certificate.
        idle_ms_max: silence after which a connection is closed.

    Attributes:
        routes: the registered brokers and topics, for programs that embed it.

    Raises:
        StoreDamaged: the file at ``kv_config_path`` cannot be decoded.
        SettingsError: a file of users or of ``tls`` cannot be used.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = PORT,
        *,
        clock: Clock | None = None,
        kv_config_path: Path | None = None,
        files: FileLayer | None = None,
        order_messages: bool = False,
        acting_masters: bool = False,
        limits: BodyLimits = LIMITS,
        access: NameServerAccess = FOR_ALL,
        tls: TlsSettings | None = None,
        idle_ms_max: int = IDLE_MS_MAX,
    ) -> None:
        self.host = host
        self.port = port
        self._clock = clock or SystemClock()
        self.routes = RouteTable(acting_masters=acting_masters, limits=limits)
        self._kv_config = KvConfig(kv_config_path, files)
        changed = self._kv_config.get(SETTINGS_NAMESPACE, ORDER_SETTING)
        self._settings = _settings(limits, access) | {
            ORDER_SETTING: changed or str(order_messages).lower(),
            "supportActingMaster": str(acting_masters).lower(),
        }
        self._requests = NameServerRequests(
            self.routes,
            self._kv_config,
            self._clock,
            self._settings,
            limits=limits,
        )
        self._access = access
        self._guard = (
            NameServerGuard(access, self._requests.decode_body, self._clock.monotonic_ms)
            if access.has_users
            else None
        )
        handler = self if self._guard is None else Guarded(self, self._guard)
        self._tls = tls or TlsSettings()
        self._server = Server(handler, clock=self._clock, tls=server_tls(self._tls), idle_ms_max=idle_ms_max)
        self._expiry: asyncio.TimerHandle | None = None

    @property
    def address(self) -> str:
        """The address for clients, ``host:port``."""
        return address_text(self.host, self.port)

    @property
    def connection_count(self) -> int:
        """Number of open connections."""
        return len(self._server.sessions)

    @property
    def refused_connections(self) -> int:
        """Number of connections that were closed at once because too many were open."""
        return self._server.refused_connections

    async def start(self) -> None:
        """Start listening. Raises SettingsError if the address cannot be used, or strangers could use it."""
        insecure = check_exposure(
            self.host,
            authentication="users (--users FILE)",
            is_on=self._access.has_users,
            insecure=self._access.insecure,
            tls=self._tls.tls_mode,
        )
        if insecure:
            _log.warning("the name server is %s", insecure)
        self.port = await self._server.start(self.host, self.port, "name server")
        self._settings["listenPort"] = str(self.port)
        self._tick()
        _log.info("name server listens on %s", self.address)

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        if self._expiry is not None:
            self._expiry.cancel()
            self._expiry = None
        await self._kv_config.settled()
        await self._server.stop()

    def expire(self) -> None:
        """Remove the brokers that are silent for too long; called every ``EXPIRY_INTERVAL_MS``."""
        for gone in self.routes.expire(self._clock.monotonic_ms()):
            _log.warning("removed broker %s at %s: no heartbeat in time", gone.broker_name, gone.addr)
            if isinstance(gone.source, Session):
                gone.source.close()

    def handle(self, session: Session, commands: list[Command]) -> None:
        """Answer the commands of one connection (called by the server)."""
        for command in commands:
            if not command.is_response:
                attempt(session, (command,), self._answer, session, command)

    def closed(self, session: Session) -> None:
        """Remove the brokers that had registered over a closed connection (called by the server)."""
        for gone in self.routes.disconnect(session):
            _log.warning("removed broker %s at %s: its connection was lost", gone.broker_name, gone.addr)

    def _answer(self, session: Session, command: Command) -> None:
        if command.code == RequestCode.REGISTER_BROKER:
            self._register(session, command, self._requests.register(command, session), None)
            return
        if command.code in CONFIG_CHANGES:
            answer_saved = partial(self._answer_saved, session, command)
            refusal = self._requests.change_config(
                command, lambda error: attempt(session, (command,), answer_saved, error)
            )
            if refusal is not None and not command.is_oneway:
                session.send(refusal)
            return
        answer = self._requests.answer(command)
        if not command.is_oneway:
            session.send(answer)

    def _answer_saved(self, session: Session, command: Command, error: OSError | None) -> None:
        """Answer a change of texts after it was saved. Raises the OSError if saving failed."""
        if error is not None:
            raise error
        if not (command.is_oneway or session.closed):
            session.send(response(command))

    def _register(
        self, session: Session, command: Command, steps: Registering, given: Registration | None
    ) -> None:
        """Run the next step of a registration in this turn of the loop; answer it after the last step."""
        if session.closed:
            return
        try:
            work = steps.send(given)
        except StopIteration as end:
            if not command.is_oneway:
                session.send(end.value)
            return
        loop = asyncio.get_running_loop()

        def go_on(done: asyncio.Future[Registration] | None = None) -> None:
            given = None if done is None else done.result()
            self._register(session, command, steps, given)

        if work is None:
            loop.call_soon(attempt, session, (command,), go_on)
        else:
            decoding = loop.run_in_executor(None, work)
            decoding.add_done_callback(lambda done: attempt(session, (command,), go_on, done))

    def refresh(self) -> None:
        """Read the files of users again if they have changed; called every ``EXPIRY_INTERVAL_MS``."""
        if self._guard is not None:
            self._guard.refresh()

    def _tick(self) -> None:
        self.expire()
        self.refresh()
        self._expiry = asyncio.get_running_loop().call_later(EXPIRY_INTERVAL_MS / 1000, self._tick)


def _settings(limits: BodyLimits, access: NameServerAccess) -> dict[str, str]:
    """Return this name server's behaviour under the names of RocketMQ's NamesrvConfig, and its limits."""
    return {
        "requestBodyBytesMax": str(limits.usual_bytes),
        "nonstandardBodyBytesMax": str(limits.nonstandard_bytes),
        "registrationTopicsMax": str(limits.registration_topics),
        "topicQueuesMax": str(limits.topic_queues),
        "routeQueuesMax": str(limits.route_queues),
        "routeTopicsMax": str(limits.route_topics),
        "authenticationEnabled": str(access.has_users).lower(),
        "closedRoutes": str(access.closed_routes).lower(),
        "insecure": str(access.insecure).lower(),
        "deleteTopicWithBrokerRegistration": "false",
        "enableAllTopicList": "true",
        "enableTopicList": "true",
        "notifyMinBrokerIdChanged": "false",
        "returnOrderTopicConfigToBroker": "true",
        "scanNotActiveBrokerInterval": str(EXPIRY_INTERVAL_MS),
    }
