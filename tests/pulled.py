"""A queue with messages that were pulled, without any broker: what tests of handling begin with."""

import asyncio

from tests.kit.messages import new_stored

from cometmq.client.handling.pulling import Pulling, PullSource
from cometmq.client.handling.start import Start
from cometmq.client.requests.offset_store import RemoteOffsets
from cometmq.client.requests.queue_requests import Pulled, QueuePull, QueueRequests
from cometmq.client.routes import Routes
from cometmq.cluster.process_queue import ProcessQueue, PulledItem
from cometmq.message import MessageQueue, StoredMessage
from cometmq.net.client import Connections

QUEUE = MessageQueue("Orders", "broker-a", 0)


def stored(queue_offset: int, topic: str = "Orders") -> StoredMessage:
    """Build a message as a broker gives it; its body is its queue offset."""
    return new_stored(
        b"%d" % queue_offset,
        topic=topic,
        queue_offset=queue_offset,
        physical_offset=queue_offset * 100,
        message_id=f"message-{queue_offset}",
        offset_id=f"offset-{queue_offset}",
        keys=(),
        properties={},
    )


class HeldRequests(QueueRequests):
    """Pulls for which no broker ever has a message."""

    def __init__(self) -> None:
        connections = Connections()
        super().__init__(connections, Routes(connections, []), "readers", 1)

    async def pull_stored(self, _: QueuePull) -> Pulled:
        """Wait until the pull is cancelled."""
        never: asyncio.Future[Pulled] = asyncio.get_running_loop().create_future()
        return await never


def pulled(*messages: StoredMessage) -> Pulling:
    """Return a queue whose messages have come; nothing more is pulled."""
    requests = HeldRequests()
    source = PullSource(requests, RemoteOffsets(requests), Start.FIRST)
    pulling = Pulling(QUEUE, source, lambda *_: None)
    pulling.waiting = ProcessQueue(0)
    pulling.waiting.put(
        [PulledItem(message.queue_offset, len(message.body), message) for message in messages], len(messages)
    )
    return pulling
