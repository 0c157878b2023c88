"""Producers and consumers for asyncio; each is imported when it is first named."""

from typing import TYPE_CHECKING, Final

from cometmq import lazy

if TYPE_CHECKING:
    from cometmq.client.consumer import Consumer, Model
    from cometmq.client.lite_pull import LitePullConsumer
    from cometmq.client.lookup import Lookup
    from cometmq.client.outcome import DeadLetter, Retry
    from cometmq.client.producer import Producer
    from cometmq.client.pull import PullConsumer
    from cometmq.client.pulling import PullOptions
    from cometmq.client.queue_requests import Pulled, PullStatus
    from cometmq.client.send_result import SendResult, SendStatus
    from cometmq.client.start import Start
    from cometmq.client.transaction import TransactionResult, TransactionState
    from cometmq.client.transaction_producer import TransactionProducer
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
    "Start",
    "TransactionProducer",
    "TransactionResult",
    "TransactionState",
]

_HOMES: Final = {
    "Consumer": "cometmq.client.consumer",
    "DeadLetter": "cometmq.client.outcome",
    "Limits": "cometmq.cluster.process_queue",
    "LitePullConsumer": "cometmq.client.lite_pull",
    "Lookup": "cometmq.client.lookup",
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
    "TransactionProducer": "cometmq.client.transaction_producer",
    "TransactionResult": "cometmq.client.transaction",
    "TransactionState": "cometmq.client.transaction",
}

__getattr__ = lazy.importer(__name__, _HOMES)
