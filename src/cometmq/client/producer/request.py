"""Requests and replies: their properties, and the reply's topic.

A request is a message with the client id of its producer and a correlation id. Its consumer sends the reply
to a topic that needs no consumers: the broker pushes it to the producer with that client id.

Source: RocketMQ ``client/impl/producer/DefaultMQProducerImpl.java`` (prepareSendRequest),
``client/utils/MessageUtil.java``, ``client/impl/ClientRemotingProcessor.java`` (receiveReplyMessage).
"""

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from cometmq.client.producer.outgoing import Outgoing
from cometmq.errors import MessageIllegal
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
from cometmq.message import StoredMessage
from cometmq.wire.headers import PushReplyHeader

REPLY_TYPE: Final = "reply"
UNKNOWN_OFFSET: Final = -1
"""The offsets of a pushed reply: the broker does not send them."""
_COPIED: Final = (CORRELATION_ID, REPLY_TO_CLIENT, TTL)
"""The properties that a reply copies from its request."""


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
