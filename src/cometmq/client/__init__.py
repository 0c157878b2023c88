"""Producers and consumers for asyncio; each class is imported at its first use.

Page: ``docs/internals/clients.md``.
"""

from typing import TYPE_CHECKING, Final

from cometmq import lazy

if TYPE_CHECKING:
    from cometmq.client.consumer.consumer import Consumer, Model
    from cometmq.client.consumer.lite_pull import LitePullConsumer
    from cometmq.client.consumer.pull import PullConsumer
    from cometmq.client.consumer.simple import SimpleConsumer
    from cometmq.client.handling.outcome import DeadLetter, Retry
    from cometmq.client.handling.pulling import PullOptions
    from cometmq.client.handling.start import Start
    from cometmq.client.lookup import Lookup
    from cometmq.client.producer.producer import Producer
    from cometmq.client.producer.send_result import SendResult, SendStatus
    from cometmq.client.producer.transaction import TransactionResult, TransactionState
    from cometmq.client.producer.transaction_producer import TransactionProducer
    from cometmq.client.requests.queue_requests import Pulled, PullStatus
    from cometmq.cluster.process_queue import Limits

__all__ = [
    "Consumer",
    "DeadLetter",
    "Limits",
    "LitePullConsumer",
    "Lookup",
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
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
]

_HOMES: Final = {
    "Consumer": "cometmq.client.consumer.consumer",
    "DeadLetter": "cometmq.client.handling.outcome",
    "Limits": "cometmq.cluster.process_queue",
    "LitePullConsumer": "cometmq.client.consumer.lite_pull",
    "Lookup": "cometmq.client.lookup",
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
    "TransactionProducer": "cometmq.client.producer.transaction_producer",
    "TransactionResult": "cometmq.client.producer.transaction",
    "TransactionState": "cometmq.client.producer.transaction",
}

__getattr__ = lazy.importer(__name__, _HOMES)
