"""The types of messages, which follow from their properties, and the types that a topic accepts.

Source: RocketMQ ``common/message/MessageType`` and ``common/attribute/TopicMessageType.java``.
"""

from collections.abc import Mapping
from typing import Final

from cometmq.format import properties
from cometmq.proxy import messaging_pb2 as pb
from cometmq.wire.bodies.topic import TYPE_ATTRIBUTE

PRIORITY: Final = "_SYS_MSG_PRIORITY_"
LITE_TOPIC: Final = "__LITE_TOPIC"
_MIXED: Final = (pb.NORMAL, pb.FIFO, pb.DELAY, pb.TRANSACTION)
_ACCEPTED: Final[Mapping[str, tuple[pb.MessageType, ...]]] = {
    "NORMAL": (pb.NORMAL,),
    "FIFO": (pb.FIFO,),
    "DELAY": (pb.DELAY,),
    "TRANSACTION": (pb.TRANSACTION,),
    "PRIORITY": (pb.PRIORITY,),
    "LITE": (pb.LITE,),
    "MIXED": _MIXED,
}
_DELAYS: Final = (properties.DELAY, *properties.TIMER_ASKS)


def accepted_types(attributes: Mapping[str, str]) -> tuple[pb.MessageType, ...]:
    """Return the types that a topic accepts; none for an attribute that is not known."""
    return _ACCEPTED.get(attributes.get(TYPE_ATTRIBUTE, "NORMAL").upper(), ())


def type_of(named: Mapping[str, str]) -> pb.MessageType:
    """Return the type of a message with these properties."""
    if named.get(properties.TRANSACTION_PREPARED) == "true":
        return pb.TRANSACTION
    if any(name in named for name in _DELAYS):
        return pb.DELAY
    if properties.SHARDING_KEY in named:
        return pb.FIFO
    if PRIORITY in named:
        return pb.PRIORITY
    return pb.LITE if LITE_TOPIC in named else pb.NORMAL
