"""Find single messages on live brokers by offset id, key or unique id."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NamedTuple

from cometmq.arguments import TEXT, check, number
from cometmq.client.answer import answers_of, registered, successful
from cometmq.client.credentials import find_credentials
from cometmq.client.merging import merged
from cometmq.client.opening import Opening
from cometmq.client.routes import Routes
from cometmq.format.host import unpack_host
from cometmq.format.message_id import parse_offset_message_id
from cometmq.format.record import decode, decode_many
from cometmq.format.stored import message_as_stored, with_readable_body
from cometmq.message import StoredMessage
from cometmq.net.address import address_text, parse_name_servers
from cometmq.net.client import Connections
from cometmq.net.tls.client import TLS, tls_of
from cometmq.wire.acl import Credentials
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import QueryMessageHeader, ViewMessageHeader, fields

TIME_MAX: Final = 2**63 - 1
UNIQUE_COUNT_MAX: Final = 64
PAGE_MIN: Final = 32
"""A broker that returns fewer records than this and than requested has no more. (RocketMQ returns at most
``defaultQueryMaxNum``, 32, by unique key, and ``maxMsgsNumBatch``, 64, by key.)"""
INDEX_TIME_MS: Final = 1_000
"""The index rounds store times down to this."""


class Lookup(Opening):
    """Finds messages by id or key; open it by ``async with``, or by ``start`` and ``stop``.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        credentials: sign the requests; None for those of the environment (``client/credentials.py``).
        tls: how to connect by TLS; True to trust the system's authorities, None to connect plainly.
    """

    opened_names = frozenset({"_connections", "_routes"})

    def __init__(
        self,
        name_servers: str,
        *,
        credentials: Credentials | None = None,
        tls: TLS | bool | None = None,
    ) -> None:
        self._tls = tls_of(tls)
        self._addresses = parse_name_servers(name_servers)
        self._credentials = find_credentials(credentials)

    async def _open(self) -> None:
        self._connections = Connections(credentials=self._credentials, tls=self._tls)
        self._routes = Routes(self._connections, self._addresses)

    async def _close(self) -> None:
        await self._connections.close()

    async def by_offset_id(self, offset_id: str) -> StoredMessage:
        """Return the message with the id that its broker gave it; the id contains the broker's address.

        Raises:
            FormatError: ``offset_id`` is not an offset id.
            RemoteError: the broker has no message at that offset.
            NetworkError: the broker does not respond.
        """
        return with_readable_body(await self.stored_at(offset_id))

    async def stored_at(self, offset_id: str) -> StoredMessage:
        """Return the same as ``by_offset_id``, with the body as it is stored."""
        check(TEXT, offset_id=offset_id)
        where = parse_offset_message_id(offset_id)
        header = ViewMessageHeader(physical_offset=where.physical_offset)
        command = Command(RequestCode.VIEW_MESSAGE_BY_ID, ext_fields=fields(header))
        address = address_text(*unpack_host(where.store_host))
        answer = await self._connections.request(address, command)
        with answers_of(address):
            return message_as_stored(decode(successful(answer).body))

    async def by_key(
        self, topic: str, key: str, *, max_count: int = 64, begin_time: int = 0, end_time: int = TIME_MAX
    ) -> list[StoredMessage]:
        """Find the newest messages that have ``key`` among their keys, newest first, each once.

        RocketMQ brokers compare only a hash of topic and key; this method compares both.

        Args:
            max_count: limit of the number of messages, of all brokers together.
            begin_time: earliest store time, ms since the epoch.
            end_time: latest store time.
        """
        check(TEXT, topic=topic, key=key)
        check(number(), max_count=max_count, begin_time=begin_time, end_time=end_time)
        return await self._find(_KeySearch(topic, key, False, max_count, begin_time, end_time))

    async def by_unique_id(self, topic: str, unique_id: str) -> list[StoredMessage]:
        """Find the messages with the producer's id, newest first; there are several if a send was retried."""
        check(TEXT, topic=topic, unique_id=unique_id)
        return await self._find(_KeySearch(topic, unique_id, True, UNIQUE_COUNT_MAX, 0, TIME_MAX))

    async def stored(
        self,
        topic: str,
        key: str,
        *,
        is_unique: bool = False,
        max_count: int = 64,
        begin_time: int = 0,
        end_time: int = TIME_MAX,
    ) -> AsyncGenerator[StoredMessage]:
        """Iterate over what ``by_key`` finds, or ``by_unique_id``, with bodies as they are stored.

        Brokers are asked for more as it goes on, so that few messages are held at a time.

        Args:
            is_unique: whether ``key`` is a producer's id.
        """
        check(TEXT, topic=topic, key=key)
        check(number(), max_count=max_count, begin_time=begin_time, end_time=end_time)
        walk = self._walk(_KeySearch(topic, key, is_unique, max_count, begin_time, end_time))
        async with aclosing(walk):
            async for message in walk:
                yield message

    async def _find(self, search: "_KeySearch") -> list[StoredMessage]:
        """Return all that a search finds, with bodies that can be read."""
        found = [with_readable_body(message) async for message in self._walk(search)]
        return sorted(found, key=age)

    async def _walk(self, search: "_KeySearch") -> AsyncGenerator[StoredMessage]:
        """Query one address of each broker of the topic."""
        route = await self._routes.get(search.topic)
        addresses = [route.any_broker(broker_name) for broker_name in route.addresses]
        walks = [self._walk_at(one, search) for one in addresses if one is not None]
        left = search.max_count
        async with aclosing(merged(walks, age)) as found:
            while left > 0 and (message := await anext(found, None)) is not None:
                yield message
                left -= 1

    async def _walk_at(self, address: str, search: "_KeySearch") -> AsyncGenerator[StoredMessage]:
        """Iterate over the messages of one broker, a page after the other.

        A broker's limit also counts records that only share the hash. So pages of older records are queried
        while the broker may have more.
        """
        seen: set[str] = set()
        until, count = search.end_time, search.max_count
        while True:
            page = await self._page(address, search, until, count)
            news = {message.offset_id: message for message in page if message.offset_id not in seen}
            seen.update(news)
            page_size, oldest = len(page), min((message.store_time for message in page), default=0)
            del page
            for message in sorted(filter(search.matches, news.values()), key=age):
                yield message
            if page_size < min(count, PAGE_MIN):
                return
            if count < PAGE_MIN:
                count = PAGE_MIN  # smaller pages would not get past many records of one second
                continue
            until = oldest if news else oldest - INDEX_TIME_MS  # else the whole second is seen

    async def _page(self, address: str, search: "_KeySearch", until: int, count: int) -> list[StoredMessage]:
        """Query one broker for the newest records up to a store time."""
        header = QueryMessageHeader(
            topic=search.topic,
            key=search.key,
            max_count=count,
            begin_time=max(search.begin_time - INDEX_TIME_MS, 0),
            end_time=until,
            is_unique_key=search.is_unique,
        )
        command = Command(RequestCode.QUERY_MESSAGE, ext_fields=fields(header))
        with registered(address):
            answer = await self._connections.request(address, command)
        if answer.code == ResponseCode.QUERY_NOT_FOUND:
            return []
        with answers_of(address):
            return [message_as_stored(record) for record in decode_many(successful(answer).body)]


def age(message: StoredMessage) -> tuple[int, int]:
    """Return what messages are sorted by, the newest first."""
    return -message.store_time, -message.physical_offset


class _KeySearch(NamedTuple):
    """The arguments of ``Lookup.by_key``.

    Attributes:
        is_unique: whether ``key`` is a producer's id and not one of a message's keys.
    """

    topic: str
    key: str
    is_unique: bool
    max_count: int
    begin_time: int
    end_time: int

    def matches(self, message: StoredMessage) -> bool:
        """Return whether a message is one that the search looks for."""
        has_key = message.message_id == self.key if self.is_unique else self.key in message.keys
        is_in_time = self.begin_time <= message.store_time <= self.end_time
        return message.topic == self.topic and has_key and is_in_time
