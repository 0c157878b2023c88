"""CometMQ: a RocketMQ-compatible message log in Python, with its data pipeline on Spark.

The clients are imported when they are first used: ``from cometmq import Message, Producer``.
"""

from typing import TYPE_CHECKING, Final

from cometmq import lazy

__version__ = "0.1.0"

if TYPE_CHECKING:
    from cometmq.client import (
        Consumer,
        DeadLetter,
        Limits,
        LitePullConsumer,
        Lookup,
        Model,
        Producer,
        PullConsumer,
        Pulled,
        PullOptions,
        PullStatus,
        Retry,
        SendResult,
        SendStatus,
        SimpleConsumer,
        Start,
        TransactionProducer,
        TransactionResult,
        TransactionState,
    )
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

_HOMES: Final = {
    "CometMQError": "cometmq.errors",
    "Consumer": "cometmq.client.consumer.consumer",
    "Credentials": "cometmq.wire.acl",
    "DeadLetter": "cometmq.client.handling.outcome",
    "Deduplicator": "cometmq.client.idempotence",
    "Limits": "cometmq.cluster.process_queue",
    "LitePullConsumer": "cometmq.client.consumer.lite_pull",
    "Lookup": "cometmq.client.lookup",
    "Message": "cometmq.message",
    "MessageQueue": "cometmq.message",
    "Model": "cometmq.client.consumer.consumer",
    "Producer": "cometmq.client.producer.producer",
    "PullConsumer": "cometmq.client.consumer.pull",
    "PullOptions": "cometmq.client.handling.pulling",
    "PullStatus": "cometmq.client.requests.queue_requests",
    "Pulled": "cometmq.client.requests.queue_requests",
    "Retry": "cometmq.client.handling.outcome",
    "SendResult": "cometmq.client.producer.send_result",
    "SendStatus": "cometmq.client.producer.send_result",
    "SimpleConsumer": "cometmq.client.consumer.simple",
    "Start": "cometmq.client.handling.start",
    "StoredMessage": "cometmq.message",
    "TLS": "cometmq.net.tls.client",
    "TransactionProducer": "cometmq.client.producer.transaction_producer",
    "TransactionResult": "cometmq.client.producer.transaction",
    "TransactionState": "cometmq.client.producer.transaction",
}

__getattr__ = lazy.importer(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
