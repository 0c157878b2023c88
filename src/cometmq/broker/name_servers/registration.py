"""The registration of the broker and its topics with every name server.

Each name server has its own task, so that one that does not answer delays no other. A task registers at the
start, as soon as a change of topics is saved (many changes in one turn of the loop are one registration), and
otherwise at intervals.

A registration holds all topics, or only those that have changed since the last one that the name server
accepted over the same connection: else each new topic would register thousands of others again. A name
server removes a broker when it loses the connection, and some remove a topic that is missing in a
registration (``deleteTopicWithBrokerRegistration``): so a new connection, a deletion, a failure and the
interval each cause a registration of all topics.
(RocketMQ: BrokerController.registerBrokerAll, registerIncrementBrokerData, BrokerOuterAPI.java.)

Callbacks that wait until the name servers know of a change (``NameServers.when_informed``) are called when
each has accepted a registration that began after it, or after 3 s. A name server that refused the last
registration, or caused such a timeout, is not waited for until it has accepted one again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from cometmq.broker.name_servers.own_address import ha_ip
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.topics import READ_WRITE, Topics
from cometmq.errors import CometMQError, RemoteError, WrongServer
from cometmq.format.checksum import body_crc
from cometmq.format.java import fastjson
from cometmq.logs import get_logger
from cometmq.net.address import address_text, parse_address
from cometmq.net.client import Connections
from cometmq.net.connection import Connection
from cometmq.wire import headers as h
from cometmq.wire.bodies import DataVersion, Registration, TopicConfig, TopicTable, to_plain
from cometmq.wire.bodies.body import wire_name
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

INFORM_WAIT_S: Final = 3.0
"""Timeout of a start, and of responses about new topics, for the name servers' registrations."""

RETRY_MS: Final = 1_000
"""Wait before the next try with a name server that did not accept a registration."""

UNREGISTER_TIMEOUT_MS: Final = 1_000
IN_LOOP_MAX: Final = 50
"""Most topics that are encoded in the loop; more are encoded in a thread."""

TABLE: Final = wire_name(Registration, "table")
TOPICS: Final = wire_name(TopicTable, "topics")

_log = get_logger(__name__)


class NameServers:
    """The name servers of one broker.

    Args:
        address: where clients reach this broker, ``ip:port``.
        ha_port: the port for slaves; None if there is none: Java name servers get the usual one then.
        on_registered: called with the answer to each registration: a slave learns its master from it.

    Raises:
        SettingsError: an address in the settings is not one, or a file of TLS cannot be used.
    """

    def __init__(
        self,
        topics: Topics,
        settings: BrokerSettings,
        address: str,
        ha_port: int | None = None,
        on_registered: Callable[[h.RegisterBrokerResponseHeader], None] = lambda _: None,
    ) -> None:
        self._topics = topics
        self._settings = settings
        self._address = address
        self._ha_ip = ha_ip(settings.network)
        self._ha_port = ha_port
        self._on_registered = on_registered
        self._connections = Connections(
            credentials=settings.auth.inner_credentials, tls=settings.tls.name_server_tls
        )
        for server in settings.network.name_servers:
            parse_address(server)
        self._servers = [_NameServer(server) for server in settings.network.name_servers]
        self._tasks: set[asyncio.Task[None]] = set()
        self._changes = 0  # of topics so far
        self._waits: deque[_Wait] = deque()
        self._texts: dict[str, tuple[TopicConfig, fastjson.Written]] = {}
        topics.on_change.append(self._count_change)
        topics.when_informed = self.when_informed
        topics.inform_again = self.inform_again

    async def wait_known(self) -> None:
        """Wait until the name servers know the present topics, at most INFORM_WAIT_S."""
        known = asyncio.Event()
        self.when_informed(known.set)
        await known.wait()

    def states(self) -> tuple[list[str], list[str]]:
        """Return the addresses of all name servers, and of those that accepted the last registration."""
        reached = [server.address for server in self._servers if server.is_reached]
        return [server.address for server in self._servers], reached

    def begin(self) -> None:
        """Start to register; until the name servers know the topics, responses that rely on one wait."""
        for server in self._servers:
            self._begin(self._keep_registered(server))
        self._changes += 1
        self._topics.publish_all()

    def when_informed(self, action: Callable[[], None]) -> None:
        """Call ``action`` once the name servers know the present topics, or after INFORM_WAIT_S."""
        count = self._changes
        for server in self._servers:
            if server.known_changes < count:
                server.due.set()
        timer = asyncio.get_running_loop().call_later(INFORM_WAIT_S, self._time_out, count)
        self._waits.append(_Wait(count, action, timer))
        self._release()

    def inform_again(self, action: Callable[[], None]) -> None:
        """Register all topics again; call ``action`` as ``when_informed`` does."""
        self._changes += 1
        for server in self._servers:
            server.unregistered = None
        self.when_informed(action)

    def register_soon(self) -> None:
        """Register now, not only when the interval is over: a slave looks for its master."""
        for server in self._servers:
            server.due.set()

    async def stop(self) -> None:
        """Unregister from the name servers that answer; no callback waits for any of them any more."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in self._servers:
            server.is_responsive = False
        self._release()
        await asyncio.gather(*(self._unregister(server) for server in self._servers if server.is_reached))
        await self._connections.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _count_change(self, names: Collection[str]) -> None:
        """Count a change of topics; it is registered once it is saved."""
        self._changes += 1
        deleted = [name for name in names if self._topics.find(name) is None]
        for name in deleted:
            self._texts.pop(name, None)
        for server in self._servers:
            if deleted:
                server.unregistered = None
            elif server.unregistered is not None:
                server.unregistered.update(names)

    def _release(self) -> None:
        """Call the callbacks whose change all responsive name servers know, the oldest first."""
        while self._waits and all(
            server.known_changes >= self._waits[0].changes for server in self._servers if server.is_responsive
        ):
            wait = self._waits.popleft()
            wait.timer.cancel()
            wait.action()

    def _time_out(self, count: int) -> None:
        """Mark the name servers that have not accepted a change in time as unresponsive."""
        for server in self._servers:
            if server.is_responsive and server.known_changes < count:
                server.is_responsive = False
                _log.warning("name server %s is slow to accept a registration", server.address)
        self._release()

    async def _keep_registered(self, server: "_NameServer") -> None:
        while True:
            server.due.clear()
            server.is_responsive = is_registered = await self._register(server)
            self._release()
            wait_ms = self._settings.registration.register_name_server_period if is_registered else RETRY_MS
            try:
                async with asyncio.timeout(wait_ms / 1000):  # wait_for may lose a cancellation when woken
                    await server.due.wait()
            except TimeoutError:
                server.unregistered = None

    async def _register(self, server: "_NameServer") -> bool:
        """Register once; return whether the name server has accepted it."""
        try:
            connection = await self._connections.connect(server.address)
            if connection is not server.connection:
                server.connection, server.unregistered = connection, None
            names, server.unregistered = server.unregistered, set()
            count = self._changes
            timeout_ms = self._settings.registration.register_broker_timeout_mills
            answer = await connection.request(await self._registration(names), timeout_ms)
            _check(answer)
            self._on_registered(h.parse(h.RegisterBrokerResponseHeader, answer.ext_fields))
        except CometMQError as error:
            level = logging.DEBUG if server.is_reached is False else logging.WARNING
            _log.log(level, "name server %s accepts no registration, trying again: %s", server.address, error)
            server.unregistered, server.is_reached = None, False
            return False
        if not server.is_reached:
            _log.info("name server %s knows this broker, %s", server.address, self._address)
        server.is_reached, server.known_changes = True, count
        return True

    async def _unregister(self, server: "_NameServer") -> None:
        header = h.BrokerHeader(*self._identity())
        command = Command(RequestCode.UNREGISTER_BROKER, ext_fields=h.fields(header))
        try:
            _check(await self._connections.request(server.address, command, UNREGISTER_TIMEOUT_MS))
        except CometMQError as error:
            _log.info("name server %s: the broker is not unregistered: %s", server.address, error)

    async def _registration(self, names: Collection[str] | None) -> Command:
        """Build the request that registers the topics of these names; all topics if there are no names."""
        topics = tuple(filter(None, map(self._topics.find, names)) if names else self._topics)
        version = self._topics.data_version
        if len(topics) > IN_LOOP_MAX:
            body = await asyncio.to_thread(self._body, topics, version)
        else:
            body = self._body(topics, version)
        host, port = parse_address(self._address)
        header = h.RegisterBrokerHeader(
            *self._identity(),
            ha_server_addr=address_text(self._ha_ip or host, self._ha_port or port + 1),
            body_crc=body_crc(body),
            enable_acting_master=self._settings.replication.enable_slave_acting_master or None,
        )
        return Command(RequestCode.REGISTER_BROKER, ext_fields=h.fields(header), body=body)

    def _body(self, topics: Sequence[TopicConfig], version: DataVersion) -> bytes:
        """Encode the registration of topics. Safe from any thread."""
        table = TopicTable(
            version, mapping_version=DataVersion(), topics={}, mapping_details={}, mapping_infos={}
        )
        plain = to_plain(Registration(table=table))
        plain[TABLE][TOPICS] = {topic.topic: self._text_of(topic) for topic in topics}
        return fastjson.dumps(plain).encode()

    def _identity(self) -> tuple[str, str, str, int]:
        own = self._settings.identity
        return own.broker_name, self._address, own.broker_cluster_name, own.broker_id

    def _text_of(self, topic: TopicConfig) -> fastjson.Written:
        """Encode a topic as JSON, its perm limited to the broker's permission; texts are cached."""
        known = self._texts.get(topic.topic)
        if known is not None and known[0] is topic:
            return known[1]
        permission = self._settings.broker_permission
        shown = topic
        if permission & READ_WRITE != READ_WRITE:
            shown = replace(topic, perm=topic.perm & permission)
        text = fastjson.Written(fastjson.dumps(to_plain(shown)))
        self._texts[topic.topic] = topic, text
        return text


class _Wait(NamedTuple):
    """A callback that waits until the name servers know a number of changes."""

    changes: int
    action: Callable[[], None]
    timer: asyncio.TimerHandle


class _NameServer:
    """One name server, and the state of its registrations.

    Attributes:
        due: set to register before the interval is over.
        is_reached: whether the last registration was accepted; None before the first one.
        is_responsive: whether callbacks wait for it.
        known_changes: the number of changes of topics that it knows.
        connection: the connection over which the topics not in ``unregistered`` were registered.
        unregistered: the names of topics that have changed since the last registration; None for all topics.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.due = asyncio.Event()
        self.is_reached: bool | None = None
        self.is_responsive = True
        self.known_changes = -1
        self.connection: Connection | None = None
        self.unregistered: set[str] | None = None


def _check(answer: Command) -> None:
    """Check that a name server has accepted a request. Raises RemoteError."""
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise WrongServer(answer.code, "it is a broker or another server, no name server: see namesrvAddr")
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteError(answer.code, answer.remark or "")
