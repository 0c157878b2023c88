"""Convert stored messages to those that gRPC clients receive.

Source: RocketMQ ``proxy/grpc/v2/common/GrpcConverter.java``. Unlike there, the body is decompressed for those
who cannot (``bodies.py``): clients do not agree on what GZIP means. The digest is that of the body as it is
sent, by MD5, on which clients agree: the one for Node.js wants a CRC32 in decimal, all others in hex.
"""

import hashlib
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from cometmq.format import properties
from cometmq.format.sys_flag import is_compressed
from cometmq.message import StoredMessage
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.message_types import LITE_TOPIC, PRIORITY, type_of

RESERVED: Final = properties.RESERVED | {
    properties.ORIGIN_GROUP,
    properties.ARRIVE_TIME,
    PRIORITY,
    LITE_TOPIC,
}
"""The properties that no client may set, and that no client receives as properties of the user."""


def timestamp_of(time_ms: int) -> Timestamp:
    """Return a time, ms since the epoch, as protobuf has it."""
    return Timestamp(seconds=time_ms // 1000, nanos=time_ms % 1000 * 1_000_000)


def received_message(message: StoredMessage, receipt: str | None = None) -> pb.Message:
    """Convert a message, with its body as it is; ``receipt`` is its receipt handle."""
    named = message.properties
    system = pb.SystemProperties(
        keys=message.keys,
        message_id=message.message_id,
        body_digest=pb.Digest(type=pb.MD5, checksum=_md5(message.body)),
        body_encoding=pb.GZIP if is_compressed(message.sys_flag) else pb.IDENTITY,
        message_type=type_of(named),
        born_timestamp=timestamp_of(message.born_time),
        born_host=named.get(properties.BORN_HOST, message.born_host),
        store_timestamp=timestamp_of(message.store_time),
        store_host=message.store_host,
        queue_id=message.queue_id,
        queue_offset=message.queue_offset,
        delivery_attempt=message.reconsume_times + 1,
        tag=message.tags,
        receipt_handle=receipt,
        message_group=named.get(properties.SHARDING_KEY),
        trace_context=named.get(properties.TRACE_CONTEXT),
        lite_topic=named.get(LITE_TOPIC),
        priority=_number(named.get(PRIORITY)),
    )
    if (deliver_ms := _number(named.get(properties.TIMER_DELIVER_MS))) is not None:
        system.delivery_timestamp.CopyFrom(timestamp_of(deliver_ms))
    if origin := named.get(properties.DLQ_ORIGIN_TOPIC):
        system.dead_letter_queue.topic = origin
        system.dead_letter_queue.message_id = named.get(properties.DLQ_ORIGIN_MESSAGE_ID, "")
    return pb.Message(
        topic=pb.Resource(name=message.topic),
        user_properties={name: value for name, value in named.items() if name not in RESERVED},
        system_properties=system,
        body=message.body,
    )


def _md5(body: bytes) -> str:
    return hashlib.md5(body, usedforsecurity=False).hexdigest().upper()


def _number(text: str | None) -> int | None:
    """Return the number in a property that holds one of at most 18 digits, else None."""
    return int(text) if text and len(text) <= 18 and text.isascii() and text.isdecimal() else None
