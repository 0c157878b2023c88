"""Check messages that gRPC clients send, and convert them to what is stored.

Source: RocketMQ ``proxy/grpc/v2/producer/SendMessageActivity.java``.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from cometmq.client.producer.outgoing import BODY_SIZE_MAX, Outgoing
from cometmq.errors import MessageIllegal
from cometmq.format import properties, sys_flag
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.messages.message_types import LITE_TOPIC, PRIORITY
from cometmq.proxy.messages.received import RESERVED
from cometmq.proxy.names import checked_topic, has_control_character, milliseconds
from cometmq.proxy.outcomes import Failure

USER_PROPERTIES_MAX: Final = 128
PROPERTIES_SIZE_MAX: Final = 16 * 1024
MESSAGE_GROUP_SIZE_MAX: Final = 63
RECOVERY_S_MAX: Final = 3_600
DELAY_MS_MAX: Final = 24 * 3_600_000
_LITE_TOPIC: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def checked_messages(messages: Sequence[pb.Message], now_ms: int) -> str:
    """Check the messages of one send, in RocketMQ's order; return their topic. Raises Failure."""
    if not messages:
        raise Failure(pb.MESSAGE_CORRUPTED, "a send without messages: give it at least one")
    topic = checked_topic(messages[0].topic)
    for message in messages:
        if message.topic.name != topic:
            raise Failure(
                pb.MESSAGE_CORRUPTED,
                f"messages of topics {topic!r} and {message.topic.name!r} in one send: send them apart",
            )
        _check_body(message.body)
        _check_properties(message)
        _check_system(message.system_properties, now_ms)
    return topic


def properties_of(message: pb.Message, peer: str) -> dict[str, str]:
    """Return the properties that are stored of a checked message.

    Args:
        peer: ``ip:port`` of its client, for a message that does not say where it was born.
    """
    system = message.system_properties
    named = dict(message.user_properties)
    named[properties.UNIQ_KEY] = system.message_id
    named[properties.PRODUCER_GROUP] = message.topic.name
    named[properties.BORN_HOST] = system.born_host or peer
    if system.tag:
        named[properties.TAGS] = system.tag
    if system.keys:
        named[properties.KEYS] = properties.KEY_SEPARATOR.join(system.keys)
    if system.HasField("born_timestamp"):
        named[properties.BORN_TIMESTAMP] = str(_milliseconds_of(system.born_timestamp))
    if system.HasField("delivery_timestamp"):
        named[properties.TIMER_DELIVER_MS] = str(_milliseconds_of(system.delivery_timestamp))
    if system.HasField("delivery_attempt"):
        named[properties.RECONSUME_TIME] = str(system.delivery_attempt)
    if system.HasField("priority"):
        named[PRIORITY] = str(system.priority)
    optional = {
        properties.SHARDING_KEY: system.message_group,
        LITE_TOPIC: system.lite_topic,
        properties.TRACE_CONTEXT: system.trace_context,
    }
    named |= {name: value for name, value in optional.items() if value}
    if system.message_type == pb.TRANSACTION:
        named[properties.TRANSACTION_PREPARED] = "true"
        if system.HasField("orphaned_transaction_recovery_duration"):
            recovery_s = system.orphaned_transaction_recovery_duration.seconds
            named[properties.CHECK_IMMUNITY_TIME] = str(recovery_s)
    return named


def outgoing_message(message: pb.Message, named: Mapping[str, str]) -> Outgoing:
    """Build what is sent to a broker, of a checked message and its properties. Raises Failure."""
    system = message.system_properties
    flags = sys_flag.COMPRESSED if system.body_encoding == pb.GZIP else 0
    if properties.TRANSACTION_PREPARED in named:
        flags = sys_flag.with_transaction_type(flags, sys_flag.TRANSACTION_PREPARED)
    try:
        text = properties.encode(named).decode()
    except MessageIllegal as error:
        raise Failure(pb.MESSAGE_PROPERTIES_TOO_LARGE, str(error)) from None
    return Outgoing(
        message.topic.name,
        (system.message_id,),
        text,
        message.body,
        0,
        flags,
        is_batch=False,
        born_time=_milliseconds_of(system.born_timestamp) if system.HasField("born_timestamp") else None,
    )


def _check_body(body: bytes) -> None:
    if not body:
        raise Failure(pb.MESSAGE_BODY_EMPTY, "the body is empty: give it at least one byte")
    if len(body) > BODY_SIZE_MAX:
        raise Failure(
            pb.MESSAGE_BODY_TOO_LARGE, f"a body of {len(body)} bytes: at most {BODY_SIZE_MAX} are possible"
        )


def _check_properties(message: pb.Message) -> None:
    system, named = message.system_properties, message.user_properties
    if len(named) > USER_PROPERTIES_MAX:
        raise Failure(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"{len(named)} user properties: at most {USER_PROPERTIES_MAX} are possible",
        )
    if len(system.keys) > PROPERTIES_SIZE_MAX:
        raise Failure(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"{len(system.keys)} keys: at most {PROPERTIES_SIZE_MAX} are possible",
        )
    texts = (system.tag, *system.keys, *named, *named.values())  # looked at one by one if they are not long
    if (size := sum(len(text.encode()) for text in texts)) > PROPERTIES_SIZE_MAX:
        raise Failure(
            pb.MESSAGE_PROPERTIES_TOO_LARGE,
            f"properties, keys and tag of {size} bytes: at most {PROPERTIES_SIZE_MAX} are possible",
        )
    for name, value in named.items():
        if name in RESERVED:
            raise Failure(
                pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name!r} is RocketMQ's own: choose another name"
            )
        if has_control_character(name) or has_control_character(value):
            raise Failure(
                pb.ILLEGAL_MESSAGE_PROPERTY_KEY, f"property {name!r} or its value has a control character"
            )
    if system.tag and (not system.tag.strip() or "|" in system.tag or has_control_character(system.tag)):
        raise Failure(pb.ILLEGAL_MESSAGE_TAG, f"tag {system.tag!r}: give one that is not blank, without |")
    for key in system.keys:
        if not key.strip() or has_control_character(key):
            raise Failure(pb.ILLEGAL_MESSAGE_KEY, f"key {key!r}: give one that is not blank")


def _check_system(system: pb.SystemProperties, now_ms: int) -> None:
    if not system.message_id.strip():
        raise Failure(pb.ILLEGAL_MESSAGE_ID, "the message has no id: give it one")
    recovery_ms = milliseconds(system.orphaned_transaction_recovery_duration)
    if system.message_type == pb.TRANSACTION and recovery_ms > RECOVERY_S_MAX * 1000:
        raise Failure(
            pb.BAD_REQUEST,
            f"a recovery of the transaction after {recovery_ms} ms: at most {RECOVERY_S_MAX} s are possible",
        )
    if system.HasField("delivery_timestamp"):
        delay_ms = _milliseconds_of(system.delivery_timestamp) - now_ms
        if delay_ms > DELAY_MS_MAX:
            raise Failure(
                pb.ILLEGAL_DELIVERY_TIME,
                f"a delivery in {delay_ms} ms: at most {DELAY_MS_MAX} ms from now are possible",
            )
    if system.HasField("message_group"):
        _check_message_group(system.message_group)
    if system.HasField("lite_topic") and not _LITE_TOPIC.fullmatch(system.lite_topic):
        raise Failure(
            pb.ILLEGAL_LITE_TOPIC,
            f"lite topic {system.lite_topic!r:.80}: give 1 to 64 characters a-z A-Z 0-9 _ -",
        )
    if system.HasField("priority") and system.priority < 0:
        raise Failure(pb.INTERNAL_SERVER_ERROR, f"priority {system.priority}: give 0 or more")


def _check_message_group(group: str) -> None:
    is_short = len(group.encode()) <= MESSAGE_GROUP_SIZE_MAX
    if not group.strip() or not is_short or has_control_character(group):
        raise Failure(
            pb.ILLEGAL_MESSAGE_GROUP,
            f"message group {group!r:.80}: give 1 to {MESSAGE_GROUP_SIZE_MAX} bytes that are not all blank",
        )


def _milliseconds_of(timestamp: Timestamp) -> int:
    """Return a time in ms since the epoch."""
    return timestamp.seconds * 1000 + timestamp.nanos // 1_000_000
