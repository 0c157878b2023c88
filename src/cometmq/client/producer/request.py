"""Requests and replies: their properties, and the reply's topic.

A request is a message with the client id of its producer and a correlation id. Its consumer sends the reply
to a topic that needs no consumers: the broker pushes it to the producer with that client id.

Source: RocketMQ ``client/impl/producer/DefaultMQProducerImpl.java`` (prepareSendRequest),
``client/utils/MessageUtil.java``, ``client/impl/ClientRemotingProcessor.java`` (receiveReplyMessage).
"""

import asyncio
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from msgspec.structs import replace

from cometmq.client.producer.outgoing import Outgoing
from cometmq.errors import MessageIllegal, NetworkError, UndecodableBody
from cometmq.format import properties
from cometmq.format.checksum import body_crc
from cometmq.format.layout import REPLY_SUFFIX
from cometmq.format.properties import (
    ARRIVE_TIME,
    CLUSTER,
    CORRELATION_ID,
    KEYS,
    MSG_TYPE,
    REPLY_TO_CLIENT,
    TAGS,
    TTL,
    UNIQ_KEY,
)
from cometmq.format.stored import with_whole_body
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.message import StoredMessage
from cometmq.net.connection import Connection
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import PushReplyHeader, parse

REPLY_TYPE: Final = "reply"
UNKNOWN_OFFSET: Final = -1
"""The offsets of a pushed reply: the broker does not send them."""
_COPIED: Final = (CORRELATION_ID, REPLY_TO_CLIENT, TTL)
"""The properties that a reply copies from its request."""

_log = get_logger(__name__)

Reply = asyncio.Future[StoredMessage]


def request_of(ready: Outgoing, correlation_id: str, client_id: str, timeout_ms: int) -> Outgoing:
    """Build a request from an encoded message. Raises MessageIllegal if its properties get too long."""
    own = {CORRELATION_ID: correlation_id, REPLY_TO_CLIENT: client_id, TTL: str(timeout_ms)}
    return replace(_with(ready, own), wants_reply=True)


def reply_of(ready: Outgoing, request: StoredMessage) -> Outgoing:
    """Build the reply to ``request`` from a message encoded for its ``reply_topic``.

    Raises MessageIllegal if its properties get too long.
    """
    copied = {name: request.properties[name] for name in _COPIED if name in request.properties}
    return replace(_with(ready, {MSG_TYPE: REPLY_TYPE, **copied}), is_reply=True)


def reply_topic(request: StoredMessage) -> str:
    """Return the topic of the reply to a message. Raises MessageIllegal if the message is not a request."""
    missing = [name for name in (CLUSTER, CORRELATION_ID, REPLY_TO_CLIENT) if name not in request.properties]
    if missing:
        raise MessageIllegal(
            f"message {request.message_id} of topic {request.topic!r} asks for no reply: it has no property "
            f"{', '.join(missing)}; only a message sent by request can be replied to"
        )
    return request.properties[CLUSTER] + REPLY_SUFFIX


def received_reply(header: PushReplyHeader, body: bytes, arrive_time: int) -> StoredMessage:
    """Build the message of a pushed reply, its body as received: see ``stored.with_whole_body``.

    Args:
        arrive_time: now, ms since the epoch.
    """
    named: Mapping[str, str] = properties.decode(header.properties.encode("utf-8", "replace"))
    return StoredMessage(
        topic=header.topic,
        queue_id=header.queue_id,
        queue_offset=UNKNOWN_OFFSET,
        physical_offset=UNKNOWN_OFFSET,
        message_id=named.get(UNIQ_KEY, ""),
        offset_id="",
        tags=named.get(TAGS),
        keys=tuple(properties.split_keys(named.get(KEYS, ""))),
        properties={**named, ARRIVE_TIME: str(arrive_time)},
        body=body,
        flag=header.flag,
        sys_flag=header.sys_flag,
        born_time=header.born_time,
        born_host=header.born_host,
        store_time=header.store_time,
        store_host=header.store_host,
        reconsume_times=header.reconsume_times,
        body_crc=body_crc(body),
    )


def _with(ready: Outgoing, own: Mapping[str, str]) -> Outgoing:
    text = ready.properties + properties.text_of(own)
    return replace(ready, properties=properties.encode_text(text).decode())


class PendingReplies:
    """The requests that wait for replies, by correlation id: matches those that a broker pushes."""

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
