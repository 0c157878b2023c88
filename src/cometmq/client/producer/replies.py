"""Match replies that a broker pushes to the requests that wait for them, by correlation id."""

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from cometmq.client.producer.request import received_reply
from cometmq.errors import NetworkError, UndecodableBody
from cometmq.format.properties import CORRELATION_ID
from cometmq.format.stored import with_whole_body
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.message import StoredMessage
from cometmq.net.connection import Connection
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import PushReplyHeader, parse

_log = get_logger(__name__)

Reply = asyncio.Future[StoredMessage]


class PendingReplies:
    """The requests that wait for replies, by correlation id."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, Reply] = {}
        self._is_closed = False

    @contextmanager
    def expect(self) -> Iterator[tuple[str, Reply]]:
        """Create a correlation id and the future of its reply; after the ``with`` block a reply is dropped.

        Raises NetworkError after ``close``, as does a future that waits at ``close``.
        """
        if self._is_closed:
            raise NetworkError("no reply will come: this producer is closed")
        correlation_id = str(uuid.uuid4())
        self._waiting[correlation_id] = reply = asyncio.get_running_loop().create_future()
        try:
            yield correlation_id, reply
        finally:
            self._waiting.pop(correlation_id, None)
            if not reply.cancel() and not reply.cancelled():
                reply.exception()  # else asyncio logs an exception that was never retrieved

    def receive(self, connection: Connection, command: Command) -> None:
        """Resolve the future of a reply that a broker pushes; the response is the same if none waits.

        Raises FormatError if its header cannot be decoded.
        """
        header = parse(PushReplyHeader, command.ext_fields)
        message = received_reply(header, command.body, self._clock.now_ms())
        correlation_id = message.properties.get(CORRELATION_ID, "")
        reply = self._waiting.pop(correlation_id, None)
        if reply is None:
            text = "the reply %r of %s is dropped: no request waits for it"
            _log.warning(text, correlation_id, message.born_host)
        elif not reply.done():
            try:
                reply.set_result(with_whole_body(message))
            except UndecodableBody as error:
                reply.set_exception(error)
        if not command.is_oneway:
            connection.send(response(command))

    def close(self) -> None:
        """Fail all requests that wait."""
        self._is_closed = True
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(NetworkError("the producer was closed before the reply came"))
