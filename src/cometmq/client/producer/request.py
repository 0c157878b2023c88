"""Requests and replies: what tells them from other messages, and which reply is to which request.

A request is a message that names who asks and a correlation id. Who consumes it sends the reply to a topic
that nobody need consume: the broker passes it on to the producer of that name.

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
NOWHERE: Final = -1
"""The offsets of a reply that was passed on: they are not told."""


def request_of(ready: Outgoing, correlation_id: str, client_id: str, timeout_ms: int) -> Outgoing:
    """Make a request of a message that is ready. Raises MessageIllegal if its properties get too long."""
    own = {CORRELATION_ID: correlation_id, REPLY_TO_CLIENT: client_id, TTL: str(timeout_ms)}
    return replace(_with(ready, own), wants_reply=True)


def reply_of(ready: Outgoing, request: StoredMessage) -> Outgoing:
    """Make the reply to ``request`` of a message that is ready for its ``reply_topic``.

    Raises MessageIllegal if its properties get too long.
    """
    passed_on = {name: request.properties[name] for name in _ASKED if name in request.properties}
    return replace(_with(ready, {MSG_TYPE: REPLY_TYPE, **passed_on}), is_reply=True)


def reply_topic(request: StoredMessage) -> str:
    """Give the topic that the reply to a message is sent to. Raises MessageIllegal if it asks for none."""
    missing = [name for name in (CLUSTER, CORRELATION_ID, REPLY_TO_CLIENT) if name not in request.properties]
    if missing:
        raise MessageIllegal(
            f"message {request.message_id} of topic {request.topic!r} asks for no reply: it has no property "
            f"{', '.join(missing)}; only what was sent as a request can be replied to"
        )
    return request.properties[CLUSTER] + REPLY_SUFFIX


def received_reply(header: PushReplyHeader, body: bytes, arrive_time: int) -> StoredMessage:
    """Return the reply that a broker has passed on, its body as it came: see ``stored.with_whole_body``.

    Args:
        arrive_time: now, ms since the epoch.
    """
    named: Mapping[str, str] = properties.decode(header.properties.encode("utf-8", "replace"))
    return StoredMessage(
        topic=header.topic,
        queue_id=header.queue_id,
        queue_offset=NOWHERE,
        physical_offset=NOWHERE,
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


_ASKED: Final = (CORRELATION_ID, REPLY_TO_CLIENT, TTL)
"""What a reply has from its request."""


def _with(ready: Outgoing, own: Mapping[str, str]) -> Outgoing:
    text = ready.properties + properties.text_of(own)
    return replace(ready, properties=properties.encode_text(text).decode())
