"""CometMQ: a RocketMQ-compatible message log in Python, with its data pipeline on Spark.

The clients are imported when they are first used: ``from cometmq import Message, Producer``.
"""

from typing import TYPE_CHECKING, Final

from cometmq import lazy

__version__ = "0.1.0"

if TYPE_CHECKING:
    from cometmq.client import *
    from cometmq.client.idempotence import Deduplicator
    from cometmq.errors import CometMQError
    from cometmq.message import Message, MessageQueue, StoredMessage
    from cometmq.net.tls.client import TLS
    from cometmq.wire.acl import Credentials

__all__ = [
    "TLS",
    "CometMQError",
    "Consumer",
    "Credentials",
    "DeadLetter",
    "Deduplicator",
    "Limits",
    "LitePullConsumer",
    "Lookup",
    "Message",
    "MessageQueue",
    "Model",
    "Producer",
    "PullConsumer",
    "PullOptions",
    "PullStatus",
    "Pulled",
    "Retry",
    "SendResult",
    "SendStatus",
    "SimpleConsumer",
    "Start",
    "StoredMessage",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
]

_HOMES: Final = dict.fromkeys(__all__, "cometmq.client") | {
    "CometMQError": "cometmq.errors",
    "Credentials": "cometmq.wire.acl",
    "Deduplicator": "cometmq.client.idempotence",
    "Message": "cometmq.message",
    "MessageQueue": "cometmq.message",
    "StoredMessage": "cometmq.message",
    "TLS": "cometmq.net.tls.client",
}

__getattr__ = lazy.importer(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
