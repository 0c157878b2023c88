"""Types by which a handler's arguments name what they shall be: the message, the broker, the logger."""

from typing import Annotated

from faststream.annotations import ContextRepo, Logger
from faststream.params import Context, NoCast

from cometmq.faststream import broker, message

__all__ = ["ContextRepo", "Logger", "NoCast", "RocketMQBroker", "RocketMQMessage"]

RocketMQMessage = Annotated[message.RocketMQMessage, Context("message")]
"""The message that is handled, with ``ack``, ``nack`` and ``reject``."""
RocketMQBroker = Annotated[broker.RocketMQBroker, Context("broker")]
"""The broker that handles it."""
