"""Producers and consumers for asyncio."""

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
]
