"""Keeping every name server informed: who this broker is and which topics it has.

Each name server has a task of its own, so that one that is away delays nobody. A task registers at the
start, as soon as a change of topics is saved (many changes in one turn of the loop are one registration), and
otherwise at intervals.

A registration holds all topics, or only those that have changed since the last one that the name server
took over the same connection: else each of thousands of topics would be told again for each one that is
made. A name server forgets a broker when it loses their connection, and some drop a topic that a broker no
longer tells of (``deleteTopicWithBrokerRegistration``): so a new connection, a deletion, a failure and the
interval each bring all topics. (RocketMQ: BrokerController.registerBrokerAll, registerIncrementBrokerData,
BrokerOuterAPI.java.)

Who is to be answered when the name servers know of a change (``NameServers.when_informed``) waits until each
has taken a registration that began after it, 3 s at most. One that did not take the last registration, or let
somebody wait so long, is away: nobody waits for it until it has taken one again.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.topics import READ_WRITE, Topics
from cometmq.errors import CometMQError, RemoteError, WrongServer
from cometmq.format.java import fastjson
from cometmq.net.address import address_text, parse_address
from cometmq.net.client import Connections
from cometmq.net.connection import Connection
from cometmq.wire.bodies import DataVersion, Registration, TopicConfig, TopicTable, to_plain
from cometmq.wire.bodies.body import wire_name
from cometmq.wire.bodies.registration import body_crc
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import BrokerHeader, RegisterBrokerHeader, fields

INFORM_WAIT_S: Final = 3.0
"""How long a start, or the answer to who makes a topic, waits for the name servers to know of it."""

RETRY_MS: Final = 1_000
"""Until the next try with a name server that did not take the registration."""

UNREGISTER_TIMEOUT_MS: Final = 1_000
IN_LOOP_MAX: Final = 50
"""The texts of so many topics are made in the loop; those of more in a thread."""

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
        self._changes = 0  # of topics so far
        self._waits: deque[_Wait] = deque()
        self._texts: dict[str, tuple[TopicConfig, fastjson.Written]] = {}
        topics.on_change.append(self._tell)
        topics.when_informed = self.when_informed
        topics.inform_again = self.inform_again

    async def wait_known(self) -> None:
        """Wait until the name servers know the topics as they are now, or for a moment."""
        known = asyncio.Event()
        self.when_informed(known.set)
        await known.wait()

    def begin(self) -> None:
        """Begin to register; until the name servers know the topics, nobody is answered who relies on one."""
        for server in self._servers:
            self._begin(self._keep_registered(server))
        self._changes += 1
        self._topics.publish_all()

    def when_informed(self, action: Callable[[], None]) -> None:
        """Call ``action`` once the name servers know the topics as they are now, or after a moment."""
        count = self._changes
        for server in self._servers:
            if server.taken < count:
                server.due.set()
        timer = asyncio.get_running_loop().call_later(INFORM_WAIT_S, self._give_up, count)
        self._waits.append(_Wait(count, action, timer))
        self._release()

    def inform_again(self, action: Callable[[], None]) -> None:
        """Register all topics once more; call ``action`` as ``when_informed`` does."""
        self._changes += 1
        for server in self._servers:
            server.untold = None
        self.when_informed(action)

    async def stop(self) -> None:
        """Unregister from those who can be reached; from now on nobody waits for any of them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for server in self._servers:
            server.is_awaited = False
        self._release()
        await asyncio.gather(*(self._unregister(server) for server in self._servers if server.reached))
        await self._connections.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _tell(self, names: Collection[str]) -> None:
        """Count a change of topics; they are registered once it is saved."""
        self._changes += 1
        deleted = [name for name in names if self._topics.find(name) is None]
        for name in deleted:
            self._texts.pop(name, None)
        for server in self._servers:
            if deleted:
                server.untold = None
            elif server.untold is not None:
                server.untold.update(names)

    def _release(self) -> None:
        """Call those whose change is known to all name servers that are there; the oldest is known first."""
        while self._waits and all(
            server.taken >= self._waits[0].changes for server in self._servers if server.is_awaited
        ):
            wait = self._waits.popleft()
            wait.timer.cancel()
            wait.action()

    def _give_up(self, count: int) -> None:
        """Wait no longer for those that have not taken a change in time."""
        for server in self._servers:
            if server.is_awaited and server.taken < count:
                server.is_awaited = False
                _log.warning("name server %s is slow to take a registration", server.address)
        self._release()

    async def _keep_registered(self, server: "_NameServer") -> None:
        while True:
            server.due.clear()
            taken = await self._register(server)
            server.is_awaited = taken
            self._release()
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
            untold, server.untold = server.untold, set()
            count = self._changes
            timeout_ms = self._settings.register_broker_timeout_mills
            _check(await connection.request(await self._registration(untold), timeout_ms))
        except CometMQError as error:
            level = logging.DEBUG if server.reached is False else logging.WARNING
            _log.log(level, "name server %s takes no registration, trying again: %s", server.address, error)
            server.untold, server.reached = None, False
            return False
        if not server.reached:
            _log.info("name server %s knows this broker, %s", server.address, self._address)
        server.reached, server.taken = True, count
        return True

    async def _unregister(self, server: "_NameServer") -> None:
        header = BrokerHeader(*self._identity())
        command = Command(RequestCode.UNREGISTER_BROKER, ext_fields=fields(header))
        try:
            _check(await self._connections.request(server.address, command, UNREGISTER_TIMEOUT_MS))
        except CometMQError as error:
            _log.info("name server %s was not told that the broker stops: %s", server.address, error)

    async def _registration(self, names: Collection[str] | None) -> Command:
        """Return the request that registers the topics of these names; all if there are none."""
        topics = tuple(filter(None, map(self._topics.find, names)) if names else self._topics)
        version = self._topics.data_version
        if len(topics) > IN_LOOP_MAX:
            body = await asyncio.to_thread(self._body, topics, version)
        else:
            body = self._body(topics, version)
        host, port = parse_address(self._address)
        header = RegisterBrokerHeader(
            *self._identity(), ha_server_addr=address_text(host, port + 1), body_crc=body_crc(body)
        )
        return Command(RequestCode.REGISTER_BROKER, ext_fields=fields(header), body=body)

    def _body(self, topics: Sequence[TopicConfig], version: DataVersion) -> bytes:
        """Return what is registered of topics. Safe from any thread."""
        table = TopicTable(
            version, mapping_version=DataVersion(), topics={}, mapping_details={}, mapping_infos={}
        )
        plain = to_plain(Registration(table=table))
        plain[TABLE][TOPICS] = {topic.topic: self._text_of(topic) for topic in topics}
        return fastjson.dumps(plain).encode()

    def _identity(self) -> tuple[str, str, str, int]:
        settings = self._settings
        return settings.broker_name, self._address, settings.broker_cluster_name, settings.broker_id

    def _text_of(self, topic: TopicConfig) -> fastjson.Written:
        """Return a topic as JSON, without what of its perm the broker does not permit at all."""
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
    """One who waits until the name servers know of so many changes."""

    changes: int
    action: Callable[[], None]
    timer: asyncio.TimerHandle


class _NameServer:
    """One name server, and what it knows.

    Attributes:
        due: to be registered with before the interval is over.
        reached: whether the last try was taken; None before there was one.
        is_awaited: it may be waited for: it is not away.
        taken: so many changes of topics it knows of.
        connection: over which ``untold`` counts.
        untold: the names of topics that have changed since it took the others; None for all.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.due = asyncio.Event()
        self.reached: bool | None = None
        self.is_awaited = True
        self.taken = -1
        self.connection: Connection | None = None
        self.untold: set[str] | None = None


def _check(answer: Command) -> None:
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        raise WrongServer(answer.code, "it is a broker or another server, no name server: see namesrvAddr")
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteError(answer.code, answer.remark or "")
