"""PullMessage, GetOffset, UpdateOffset and QueryOffset: read queues by offsets, and commit these.

RocketMQ's own proxy serves none of these rpcs.
"""

from collections.abc import AsyncIterator

from cometmq.client.requests.queue_requests import PULL_COUNT, Pulled, PullStatus, QueuePull
from cometmq.cluster.route import READ
from cometmq.errors import CometMQError
from cometmq.message import MessageQueue
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.filters import subscription_of
from cometmq.proxy.messages.bodies import ROOM_S, Bodies, held_bytes
from cometmq.proxy.messages.received import received_message
from cometmq.proxy.names import checked_group, checked_topic, milliseconds
from cometmq.proxy.outcomes import OK, Failure, status_of, unread
from cometmq.proxy.transport import Call

POLLING_MS_MAX = 20_000
ANSWER_MS = 1_000
"""What is left of the client's deadline for the answer."""
ANY_GROUP = ""
_NOTHING = {PullStatus.NO_NEW_MESSAGE: "no new message", PullStatus.NO_MATCHED_MESSAGE: "no match message"}


class PullingQueues:
    """Reads queues for clients that keep their offsets themselves, or commit them."""

    def __init__(self, brokers: Brokers, bodies: Bodies) -> None:
        self._brokers = brokers
        self._bodies = bodies

    async def pull_message(
        self, request: pb.PullMessageRequest, call: Call
    ) -> AsyncIterator[pb.PullMessageResponse]:
        """Iterate over the status, the messages, and the offset to pull from next."""
        try:
            group, queue = checked_group(request.group), await self._queue(request.message_queue)
            if not await call.answers.ask(ROOM_S):
                raise unread()
            pulled = await self._brokers.pulls(group).pull_stored(self._wanted(request, queue, call))
            if pulled.messages and not call.answers.hold(held_bytes(pulled.messages)):
                del pulled  # the refusal may wait for a client that reads nothing
                raise unread()
        except CometMQError as error:
            yield pb.PullMessageResponse(status=status_of(error))
            return
        yield pb.PullMessageResponse(status=_status(queue, request.offset, pulled))
        for message in pulled.messages:
            readable = await self._bodies.readable(message, call.language, call.answers)
            yield pb.PullMessageResponse(message=received_message(readable))
        yield pb.PullMessageResponse(next_offset=pulled.next_offset)

    async def get_offset(self, request: pb.GetOffsetRequest, _call: Call) -> pb.GetOffsetResponse:
        """Return the offset that a group has committed."""
        group, queue = checked_group(request.group), await self._queue(request.message_queue)
        offset = await self._brokers.pulls(group).committed(queue)
        if offset is None:
            raise Failure(pb.OFFSET_NOT_FOUND, f"group {group!r} has committed no offset of {_text(queue)}")
        return pb.GetOffsetResponse(status=OK, offset=offset)

    async def update_offset(self, request: pb.UpdateOffsetRequest, _call: Call) -> pb.UpdateOffsetResponse:
        """Commit an offset for a group."""
        group, queue = checked_group(request.group), await self._queue(request.message_queue)
        if request.offset < 0:
            raise Failure(pb.ILLEGAL_OFFSET, f"offset {request.offset}: give 0 or more")
        await self._brokers.pulls(group).commit(queue, request.offset)
        return pb.UpdateOffsetResponse(status=OK)

    async def query_offset(self, request: pb.QueryOffsetRequest, _call: Call) -> pb.QueryOffsetResponse:
        """Return a queue's first offset, the one behind its last message, or that of a time."""
        queue, pulls = await self._queue(request.message_queue), self._brokers.pulls(ANY_GROUP)
        if request.query_offset_policy == pb.TIMESTAMP:
            offset = await pulls.offset_by_time(queue, request.timestamp.ToMilliseconds())
        elif request.query_offset_policy == pb.END:
            offset = await pulls.max_offset(queue)
        else:
            offset = await pulls.min_offset(queue)
        return pb.QueryOffsetResponse(status=OK, offset=offset)

    async def _queue(self, wanted: pb.MessageQueue) -> MessageQueue:
        """Return the queue that a client names. Raises Failure if there is none that can be read."""
        topic, name = checked_topic(wanted.topic), wanted.broker.name
        route = await self._brokers.route(topic)
        counts = next((one for one in route.queues if one.broker_name == name and one.perm & READ), None)
        if counts is None or not 0 <= wanted.id < counts.read_count:
            raise Failure(
                pb.BAD_REQUEST, f"topic {topic!r} has no queue {wanted.id} to read at broker {name!r}"
            )
        return MessageQueue(topic, name, wanted.id)

    def _wanted(self, request: pb.PullMessageRequest, queue: MessageQueue, call: Call) -> QueuePull:
        """Return what to pull. Raises Failure for a filter that cannot be parsed."""
        data = subscription_of(queue.topic, request.filter_expression, self._brokers.clock.now_ms())
        is_sql = request.filter_expression.type == pb.SQL
        wait_ms, left_ms = milliseconds(request.long_polling_timeout), call.left_ms()
        if left_ms is not None:
            wait_ms = min(wait_ms, left_ms - ANSWER_MS)
        return QueuePull(
            queue,
            request.offset,
            sql=data.expression if is_sql else None,
            tags="*" if is_sql else data.expression,
            max_count=max(1, min(request.batch_size or PULL_COUNT, PULL_COUNT)),
            wait_ms=max(0, min(wait_ms, POLLING_MS_MAX)),
        )


def _status(queue: MessageQueue, offset: int, pulled: Pulled) -> pb.Status:
    if pulled.status is PullStatus.OFFSET_ILLEGAL:
        return pb.Status(
            code=pb.ILLEGAL_OFFSET,
            message=f"offset {offset} is not in {pulled.min_offset} to {pulled.max_offset} of {_text(queue)}",
        )
    if not pulled.messages:
        text = _NOTHING.get(pulled.status, "no match message")
        return pb.Status(code=pb.MESSAGE_NOT_FOUND, message=text)
    return OK


def _text(queue: MessageQueue) -> str:
    return f"queue {queue.queue_id} of topic {queue.topic!r} at broker {queue.broker_name!r}"
