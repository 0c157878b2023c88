"""LOCK_BATCH_MQ and UNLOCK_BATCH_MQ: the locks of queues that are consumed in order.

RocketMQ: ``LockBatchRequestBody.java``, ``UnlockBatchRequestBody.java``, ``LockBatchResponseBody.java``.
"""

from msgspec import field

from cometmq.message import MessageQueue
from cometmq.wire.bodies.body import Body


class LockRequest(Body):
    """The queues that a client locks or unlocks."""

    client_id: str
    consumer_group: str
    queues: list[MessageQueue] = field(default_factory=list, name="mqSet")
    only_this_broker: bool = False


class LockResponse(Body):
    """The queues whose locks the client holds now."""

    queues: list[MessageQueue] = field(default_factory=list, name="lockOKMQSet")
