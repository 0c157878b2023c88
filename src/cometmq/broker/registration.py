"""Keeping every name server informed: who this broker is and which topics it has.

Each name server has a task of its own, so that one that is away delays nobody. A task registers at the
start, as soon as a topic changes (many changes in one turn of the loop are one registration), and
otherwise at intervals. (RocketMQ: BrokerController.registerBrokerAll, BrokerOuterAPI.java.)
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from cometmq.broker.settings import BrokerSettings
from cometmq.broker.topics import READ_WRITE, Topics
from cometmq.errors import CometMQError, RemoteError
from cometmq.net.address import address_text, parse_address
from cometmq.net.client import Connections
from cometmq.wire.bodies import DataVersion, Registration, TopicConfig, TopicTable, encode
from cometmq.wire.bodies.registration import body_crc
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import BrokerHeader, RegisterBrokerHeader, fields

INFORM_WAIT_S: Final = 1.0
"""How long a start, or the answer to who makes a topic, waits for the name servers to know of it."""

RETRY_MS: Final = 1_000
"""Until the next try with a name server that did not take the registration."""

UNREGISTER_TIMEOUT_MS: Final = 1_000

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
        self._changed = {server: asyncio.Event() for server in settings.name_servers}
        self._next_try = {server: asyncio.Event() for server in settings.name_servers}
        self._reached: set[str] = set()
        self._away: set[str] = set()  # those of which the log says so already
        self._tasks: set[asyncio.Task[None]] = set()
        topics.on_change.append(lambda _: self.register_soon())
        topics.when_published = self.when_informed

    async def start(self) -> None:
        """Begin to register; returns when each name server has been tried, or after a moment."""
        for server in self._changed:
            self._begin(self._keep_registered(server))
        await self._inform()

    def when_informed(self, action: Callable[[], None]) -> None:
        """Call ``action`` once the name servers know the topics as they are now, or after a moment."""

        async def inform() -> None:
            await self._inform()
            action()

        self._begin(inform())

    def register_soon(self) -> None:
        """Register with all, at the end of this turn of the loop."""
        for changed in self._changed.values():
            changed.set()

    async def stop(self) -> None:
        """Tell those who can be reached that the broker goes, and end."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*map(self._unregister, self._reached))
        await self._connections.close()

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _inform(self) -> None:
        """Register with all; returns when each has been tried with the topics of now, or after a moment."""
        self.register_soon()
        tries = [event.wait() for event in self._next_try.values()]
        try:
            async with asyncio.timeout(INFORM_WAIT_S):
                await asyncio.gather(*tries)
        except TimeoutError:
            _log.info("some name servers are slow to take the registration")

    async def _keep_registered(self, server: str) -> None:
        changed = self._changed[server]
        while True:
            changed.clear()
            tried, self._next_try[server] = self._next_try[server], asyncio.Event()
            taken = await self._register(server)
            tried.set()
            wait_ms = self._settings.register_name_server_period if taken else RETRY_MS
            with suppress(TimeoutError):  # wait_for would forget to be cancelled if it is woken as well
                async with asyncio.timeout(wait_ms / 1000):
                    await changed.wait()

    async def _register(self, server: str) -> bool:
        """Register once; tell whether the name server has taken it."""
        try:
            timeout_ms = self._settings.register_broker_timeout_mills
            _check(await self._connections.request(server, self._registration(), timeout_ms))
        except CometMQError as error:
            level = logging.DEBUG if server in self._away else logging.WARNING
            _log.log(level, "name server %s does not take the registration, trying again: %s", server, error)
            self._away.add(server)
            self._reached.discard(server)
            return False
        if server not in self._reached:
            _log.info("name server %s knows this broker, %s", server, self._address)
        self._away.discard(server)
        self._reached.add(server)
        return True

    async def _unregister(self, server: str) -> None:
        header = BrokerHeader(*self._identity())
        command = Command(RequestCode.UNREGISTER_BROKER, ext_fields=fields(header))
        try:
            _check(await self._connections.request(server, command, UNREGISTER_TIMEOUT_MS))
        except CometMQError as error:
            _log.info("name server %s was not told that the broker stops: %s", server, error)

    def _registration(self) -> Command:
        table = TopicTable(
            self._topics.data_version,
            mapping_version=DataVersion(),
            topics={topic.topic: self._permitted(topic) for topic in self._topics},
            mapping_details={},
            mapping_infos={},
        )
        body = encode(Registration(table=table))
        host, port = parse_address(self._address)
        header = RegisterBrokerHeader(
            *self._identity(), ha_server_addr=address_text(host, port + 1), body_crc=body_crc(body)
        )
        return Command(RequestCode.REGISTER_BROKER, ext_fields=fields(header), body=body)

    def _identity(self) -> tuple[str, str, str, int]:
        settings = self._settings
        return settings.broker_name, self._address, settings.broker_cluster_name, settings.broker_id

    def _permitted(self, topic: TopicConfig) -> TopicConfig:
        """Take from a topic's perm what the broker does not permit at all."""
        permission = self._settings.broker_permission
        if permission & READ_WRITE == READ_WRITE:
            return topic
        return replace(topic, perm=topic.perm & permission)


def _check(answer: Command) -> None:
    if answer.code != ResponseCode.SUCCESS:
        raise RemoteError(answer.code, answer.remark or "")
