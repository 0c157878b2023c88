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
        Start,
        TransactionProducer,
        TransactionResult,
        TransactionState,
    )
    from cometmq.client.idempotence import Deduplicator
    from cometmq.errors import CometMQError
    from cometmq.message import Message, MessageQueue, StoredMessage

__all__ = [
    "CometMQError",
    "Consumer",
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
    "Start",
    "StoredMessage",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
]

_HOMES: Final = {
    "CometMQError": "cometmq.errors",
    "Consumer": "cometmq.client.consumer",
    "DeadLetter": "cometmq.client.outcome",
    "Deduplicator": "cometmq.client.idempotence",
    "Limits": "cometmq.cluster.process_queue",
    "LitePullConsumer": "cometmq.client.lite_pull",
    "Lookup": "cometmq.client.lookup",
    "Message": "cometmq.message",
    "MessageQueue": "cometmq.message",
    "Model": "cometmq.client.consumer",
    "Producer": "cometmq.client.producer",
    "PullConsumer": "cometmq.client.pull",
    "PullOptions": "cometmq.client.pulling",
    "PullStatus": "cometmq.client.queue_requests",
    "Pulled": "cometmq.client.queue_requests",
    "Retry": "cometmq.client.outcome",
    "SendResult": "cometmq.client.send_result",
    "SendStatus": "cometmq.client.send_result",
    "Start": "cometmq.client.start",
    "StoredMessage": "cometmq.message",
    "TransactionProducer": "cometmq.client.transaction_producer",
    "TransactionResult": "cometmq.client.transaction",
    "TransactionState": "cometmq.client.transaction",
}

__getattr__ = lazy.importer(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
