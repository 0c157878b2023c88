"""Replies that requests wait for: which comes from a broker, some time, goes to the one that asked for it."""

import asyncio
import logging
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from cometmq.client.producer.request import received_reply
from cometmq.errors import NetworkError, UndecodableBody
from cometmq.format.properties import CORRELATION_ID
from cometmq.format.stored import with_whole_body
from cometmq.io.clock import Clock
from cometmq.message import StoredMessage
from cometmq.net.connection import Connection
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import PushReplyHeader, parse

_log = logging.getLogger(__name__)

Reply = asyncio.Future[StoredMessage]


class PendingReplies:
    """Gives replies to who waits for them."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: dict[str, Reply] = {}
        self._is_closed = False

    @contextmanager
    def expected(self) -> Iterator[tuple[str, Reply]]:
        """Give a correlation id, and the reply to the request that has it; what comes afterwards is too late.

        Raises NetworkError if this is closed; so does the reply that has not come when it is.
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
                reply.exception()  # perhaps nobody has looked

    def take(self, connection: Connection, command: Command) -> None:
        """Take a reply that a broker passes on. Raises FormatError if its header cannot be read.

        To the broker it makes no difference whether anybody waits for it.
        """
        header = parse(PushReplyHeader, command.ext_fields)
        message = received_reply(header, command.body, self._clock.now_ms())
        correlation_id = message.properties.get(CORRELATION_ID, "")
        reply = self._waiting.pop(correlation_id, None)
        if reply is None:
            text = "the reply %r of %s is dropped: nobody waits for it, or not any more"
            _log.warning(text, correlation_id, message.born_host)
        elif not reply.done():
            try:
                reply.set_result(with_whole_body(message))
            except UndecodableBody as error:
                reply.set_exception(error)
        if not command.is_oneway:
            connection.send(response(command))

    def close(self) -> None:
        """Fail what waits: no reply will be taken any more."""
        self._is_closed = True
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(NetworkError("the producer was closed before the reply came"))
