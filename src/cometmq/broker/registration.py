"""Keeping every name server informed: who this broker is and which topics it has.

Each name server has a task of its own, so that one that is away delays nobody. A task registers at the
start, as soon as a topic changes (many changes in one turn of the loop are one registration), and
otherwise at intervals.

A registration holds all topics, or only those that have changed since the last one that the name server
took over the same connection: else each of thousands of topics would be told again for each one that is
made. A name server forgets a broker when it loses their connection, and some drop a topic that a broker no
longer tells of (``deleteTopicWithBrokerRegistration``): so a new connection, a deletion, a failure and the
interval each bring all topics. (RocketMQ: BrokerController.registerBrokerAll, registerIncrementBrokerData,
BrokerOuterAPI.java.)
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine
from typing import Any, Final

from msgspec.structs import replace

from cometmq.broker.settings import BrokerSettings
from cometmq.broker.topics import READ_WRITE, Topics
from cometmq.errors import CometMQError, RemoteError, WrongServer
from cometmq.format import fastjson
from cometmq.net.address import address_text, parse_address
from cometmq.net.client import Connection, Connections
from cometmq.wire.bodies import DataVersion, Registration, TopicConfig, TopicTable, to_plain
from cometmq.wire.bodies.body import wire_name
from cometmq.wire.bodies.registration import body_crc
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import BrokerHeader, RegisterBrokerHeader, fields

INFORM_WAIT_S: Final = 1.0
"""How long a start, or the answer to who makes a topic, waits for the name servers to know of it."""

RETRY_MS: Final = 1_000
"""Until the next try with a name server that did not take the registration."""

UNREGISTER_TIMEOUT_MS: Final = 1_000
TABLE: Final = wire_name(Registration, "table")
TOPICS: Final = wire_name(TopicTable, "topics")

_log = logging.getLogger(__name__)


class NameServers:
    """The name servers of one broker.

    Args:
        address: where clients reach this broker, ``ip:port``.

    Raises:
        SettingsError: the settings name a name server by what is no address.
    """

    def __init__(self, topics: Topics, settings: BrokerSettings, address: str) -> None:
        self._topics = topics
        self._settings = settings
        self._address = address
        self._connections = Connections()
        for server in settings.name_servers:
            parse_address(server)
        self._servers = [_NameServer(server) for server in settings.name_servers]
        self._tasks: set[asyncio.Task[None]] = set()
        topics.on_change.append(self._tell)
        topics.when_published = self.when_informed

    async def start(self) -> None:
        """Begin to register; returns when each name server has been tried, or after a moment."""
        for server in self._servers:
            self._begin(self._keep_registered(server))
        await _ended(self._next_tries())

    def when_informed(self, action: Callable[[], None]) -> None:
        """Call ``action`` once the name servers know the topics as they are now, or after a moment."""

        async def act_after(tries: list[asyncio.Event]) -> None:
            await _ended(tries)
            action()

        self._begin(act_after(self._next_tries()))

    def register_soon(self) -> None:
        """Register with all, at the end of this turn of the loop."""
        for server in self._servers:
            server.due.set()

    async def stop(self) -> None:
        """Tell those who can be reached that the broker goes, and end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(self._unregister(server) for server in self._servers if server.reached))
        await self._connections.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _next_tries(self) -> list[asyncio.Event]:
        """Register with all; give what is set when each has been tried with the topics of now."""
        self.register_soon()
        return [server.next_try for server in self._servers]

    def _tell(self, names: Collection[str]) -> None:
        """Register topics that have changed."""
        deleted = any(self._topics.find(name) is None for name in names)
        for server in self._servers:
            server.untold = None if deleted or server.untold is None else server.untold.union(names)
        self.register_soon()

    async def _keep_registered(self, server: "_NameServer") -> None:
        while True:
            server.due.clear()
            tried, server.next_try = server.next_try, asyncio.Event()
            taken = await self._register(server)
            tried.set()
            wait_ms = self._settings.register_name_server_period if taken else RETRY_MS
            try:
                async with asyncio.timeout(wait_ms / 1000):  # wait_for, woken too, forgets to be cancelled
                    await server.due.wait()
            except TimeoutError:
                server.untold = None

    async def _register(self, server: "_NameServer") -> bool:
        """Register once; tell whether the name server has taken it."""
        try:
            connection = await self._connections.connect(server.address)
            if connection is not server.connection:
                server.connection, server.untold = connection, None
            untold, server.untold = server.untold, frozenset()
            timeout_ms = self._settings.register_broker_timeout_mills
            _check(await connection.request(self._registration(untold), timeout_ms))
        except CometMQError as error:
            level = logging.DEBUG if server.reached is False else logging.WARNING
            _log.log(level, "name server %s takes no registration, trying again: %s", server.address, error)
            server.untold, server.reached = None, False
            return False
        if not server.reached:
            _log.info("name server %s knows this broker, %s", server.address, self._address)
        server.reached = True
        return True

    async def _unregister(self, server: "_NameServer") -> None:
        header = BrokerHeader(*self._identity())
        command = Command(RequestCode.UNREGISTER_BROKER, ext_fields=fields(header))
        try:
            _check(await self._connections.request(server.address, command, UNREGISTER_TIMEOUT_MS))
        except CometMQError as error:
            _log.info("name server %s was not told that the broker stops: %s", server.address, error)

    def _registration(self, names: Collection[str] | None) -> Command:
        """Give the request that registers the topics of these names; all if there are none."""
        topics = filter(None, map(self._topics.find, names)) if names else self._topics
        table = TopicTable(
            self._topics.data_version,
            mapping_version=DataVersion(),
            topics={},
            mapping_details={},
            mapping_infos={},
        )
        plain = to_plain(Registration(table=table))
        plain[TABLE][TOPICS] = {topic.topic: self._text_of(topic) for topic in topics}
        body = fastjson.without_lines(fastjson.dumps(plain)).encode()
        host, port = parse_address(self._address)
        header = RegisterBrokerHeader(
            *self._identity(), ha_server_addr=address_text(host, port + 1), body_crc=body_crc(body)
        )
        return Command(RequestCode.REGISTER_BROKER, ext_fields=fields(header), body=body)

    def _identity(self) -> tuple[str, str, str, int]:
        settings = self._settings
        return settings.broker_name, self._address, settings.broker_cluster_name, settings.broker_id

    def _text_of(self, topic: TopicConfig) -> fastjson.Written:
        """Give a topic as JSON, without what of its perm the broker does not permit at all."""
        permission = self._settings.broker_permission
        if permission & READ_WRITE == READ_WRITE:
            return self._topics.text_of(topic)
        return fastjson.Written(fastjson.dumps(to_plain(replace(topic, perm=topic.perm & permission))))


class _NameServer:
    """One name server, and what it knows.

    Attributes:
        due: to be registered with before the interval is over.
        next_try: set once the next try that begins has ended.
        reached: whether the last try was taken; None before there was one.
        connection: over which ``untold`` counts.
        untold: the names of topics that have changed since it took the others; None for all.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.due = asyncio.Event()
        self.next_try = asyncio.Event()
        self.reached: bool | None = None
        self.connection: Connection | None = None
        self.untold: frozenset[str] | None = None


async def _ended(tries: list[asyncio.Event]) -> None:
    """Wait until all tries have ended, but only for a moment."""
    try:
        async with asyncio.timeout(INFORM_WAIT_S):
            await asyncio.gather(*(tried.wait() for tried in tries))
    except TimeoutError:
        _log.info("some name servers are slow to take the registration")


def _check(answer: Command) -> None:
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise WrongServer(answer.code, "it is a broker or another server, no name server: see namesrvAddr")
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteError(answer.code, answer.remark or "")
