"""Producers and consumers for asyncio."""

from cometmq.client.lookup import Lookup
from cometmq.client.producer import Producer
from cometmq.client.pull import PullConsumer, Pulled, PullStatus
from cometmq.client.send_result import SendResult, SendStatus

__all__ = ["Lookup", "Producer", "PullConsumer", "PullStatus", "Pulled", "SendResult", "SendStatus"]
