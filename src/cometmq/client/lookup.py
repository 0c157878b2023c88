"""Finding single messages on live brokers: by offset id, by key, by unique id."""

from typing import Self

from cometmq.client.routes import Routes, parse_name_servers
from cometmq.errors import RemoteError
from cometmq.format.host import unpack_host
from cometmq.format.message_id import parse_offset_message_id
from cometmq.format.record import decode, decode_many
from cometmq.format.stored import readable_message
from cometmq.message import StoredMessage
from cometmq.net.address import address_text
from cometmq.net.client import Connections
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import QueryMessageHeader, ViewMessageHeader, fields

TIME_MAX = 2**63 - 1


class Lookup:
    """Finds messages.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
    """

    def __init__(self, name_servers: str) -> None:
        self._addresses = parse_name_servers(name_servers)

    async def __aenter__(self) -> Self:
        """Get ready to ask."""
        self._connections = Connections()
        self._routes = Routes(self._connections, self._addresses)
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._connections.close()

    async def by_offset_id(self, offset_id: str) -> StoredMessage:
        """Give the message with the broker's id: the id tells which broker has it.

        Raises:
            FormatError: the text is no such id.
            RemoteError: the broker has no message there.
            NetworkError: the broker does not answer.
        """
        where = parse_offset_message_id(offset_id)
        header = ViewMessageHeader(physical_offset=where.physical_offset)
        command = Command(RequestCode.VIEW_MESSAGE_BY_ID, ext_fields=fields(header))
        answer = await self._connections.request(address_text(*unpack_host(where.store_host)), command)
        if answer.code != ResponseCode.SUCCESS:
            raise RemoteError(answer.code, answer.remark or "")
        return readable_message(decode(answer.body))

    async def by_key(
        self, topic: str, key: str, *, max_count: int = 64, begin_time: int = 0, end_time: int = TIME_MAX
    ) -> list[StoredMessage]:
        """Give the messages that have ``key`` among their keys, stored within a time range (ms)."""
        found = await self._query(topic, key, max_count, begin_time, end_time, is_unique=False)
        return [message for message in found if key in message.keys]

    async def by_unique_id(self, topic: str, unique_id: str) -> list[StoredMessage]:
        """Give the messages with the producer's id: more than one if a send was tried again."""
        found = await self._query(topic, unique_id, 64, 0, TIME_MAX, is_unique=True)
        return [message for message in found if message.message_id == unique_id]

    async def _query(
        self, topic: str, key: str, max_count: int, begin_time: int, end_time: int, *, is_unique: bool
    ) -> list[StoredMessage]:
        header = QueryMessageHeader(
            topic=topic,
            key=key,
            max_count=max_count,
            begin_time=begin_time,
            end_time=end_time,
            is_unique_key=is_unique,
        )
        found: list[StoredMessage] = []
        route = await self._routes.get(topic)
        for broker_name in route.addresses:
            if (address := route.any_broker(broker_name)) is None:
                continue
            command = Command(RequestCode.QUERY_MESSAGE, ext_fields=fields(header))
            answer = await self._connections.request(address, command)
            if answer.code == ResponseCode.SUCCESS:
                found += [readable_message(record) for record in decode_many(answer.body)]
            elif answer.code != ResponseCode.QUERY_NOT_FOUND:
                raise RemoteError(answer.code, answer.remark or "")
        return sorted(found, key=lambda message: (message.store_time, message.physical_offset))[:max_count]
