"""The pull consumer: reads queues from offsets that its user stores, or commits for a group.

::

    async with PullConsumer("127.0.0.1:9876", group="audit") as consumer:
        for queue in await consumer.queues("orders"):
            async for message in consumer.messages(queue, tags="paid"):
                ...
"""

from collections.abc import AsyncIterator
from typing import Self

from cometmq.arguments import check, number
from cometmq.client.credentials import find_credentials
from cometmq.client.requests.queue_requests import PullStatus, QueueRequests
from cometmq.client.routes import Routes
from cometmq.format.layout import valid_group
from cometmq.message import MessageQueue, StoredMessage
from cometmq.net.address import parse_name_servers
from cometmq.net.client import Connections
from cometmq.net.tls.client import TLS, tls_of
from cometmq.wire.acl import Credentials


class PullConsumer(QueueRequests):
    """Reads queues; open it with ``async with``.

    Args:
        name_servers: ``host:port``, several joined by ``;``.
        group: name of the consumer group for which offsets are committed.
        timeout_ms: timeout of a request; a pull may be held longer by its ``wait_ms``.
        credentials: sign the requests; None for those of the environment (``client/credentials.py``).
        tls: how to connect by TLS; True to trust the system's authorities, None to connect plainly.
    """

    def __init__(
        self,
        name_servers: str,
        group: str,
        *,
        timeout_ms: int = 3_000,
        credentials: Credentials | None = None,
        tls: TLS | bool | None = None,
    ) -> None:
        check(number(1), timeout_ms=timeout_ms)
        connections = Connections(credentials=find_credentials(credentials), tls=tls_of(tls))
        routes = Routes(connections, parse_name_servers(name_servers))
        super().__init__(connections, routes, valid_group(group), timeout_ms)

    async def __aenter__(self) -> Self:
        """Open the consumer."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        await self._connections.close()

    async def messages(
        self, queue: MessageQueue, queue_offset: int = 0, *, tags: str = "*", sql: str | None = None
    ) -> AsyncIterator[StoredMessage]:
        """Iterate over a queue's messages from ``queue_offset`` to its end. Raises like ``pull``."""
        while True:
            pulled = await self.pull(queue, queue_offset, tags=tags, sql=sql)
            for message in pulled.messages:
                yield message
            is_stuck = pulled.next_offset == queue_offset or queue_offset > pulled.max_offset
            queue_offset = pulled.next_offset
            if is_stuck or pulled.status is PullStatus.NO_NEW_MESSAGE or queue_offset >= pulled.max_offset:
                return
