"""AckMessage, ChangeInvisibleDuration and ForwardMessageToDeadLetterQueue: what becomes of received messages.

What concerns a message that another worker of this proxy prolongs is passed on to that.

Source: RocketMQ ``proxy/grpc/v2/consumer/AckMessageActivity.java`` and its neighbours.
"""

import asyncio

from cometmq.errors import CometMQError
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.fellow_workers import FellowWorkers
from cometmq.proxy.names import check_count, checked_group, checked_invisible_ms, checked_topic
from cometmq.proxy.outcomes import OK, Failure, code_of_broker, common_status, status_of
from cometmq.proxy.renewals import Renewals
from cometmq.proxy.rpcs.dead_letters import check_place, forward_to_dead_letters
from cometmq.proxy.transport import Call, ClientKey
from cometmq.wire.codes import ResponseCode


class Acknowledging:
    """Ends the deliveries of messages, or postpones their next ones.

    Args:
        items_max: entries of one acknowledgement.
    """

    def __init__(self, brokers: Brokers, renewals: Renewals, fellows: FellowWorkers, items_max: int) -> None:
        self._items_max = items_max
        self._brokers = brokers
        self._renewals = renewals
        self._fellows = fellows

    async def ack_message(self, request: pb.AckMessageRequest, call: Call) -> pb.AckMessageResponse:
        """Acknowledge messages; the answer has an entry for each."""
        group, topic = checked_group(request.group), checked_topic(request.topic)
        if not request.entries:
            raise Failure(pb.INTERNAL_SERVER_ERROR, "an acknowledgement of no message: give it an entry")
        check_count(len(request.entries), self._items_max, "entries")
        each = (self._ack(group, topic, entry, call.client) for entry in request.entries)
        entries = await asyncio.gather(*each)
        status = common_status([entry.status for entry in entries])
        return pb.AckMessageResponse(status=status, entries=entries)

    async def change_invisible_duration(
        self, request: pb.ChangeInvisibleDurationRequest, call: Call
    ) -> pb.ChangeInvisibleDurationResponse:
        """Hide a message for another time; the answer has its new handle."""
        group, topic = checked_group(request.group), checked_topic(request.topic)
        invisible_ms = checked_invisible_ms(request.invisible_duration, 0)
        if (holder := self._fellows.holder_of(request.receipt_handle)) is not None:
            answer: pb.ChangeInvisibleDurationResponse = await holder.call(
                "ChangeInvisibleDuration", request, call.client
            )
            return answer
        pops = self._brokers.pops(group)
        try:
            async with self._renewals.present(call.client, group, request.receipt_handle) as receipt:
                handle = await pops.change_invisible(
                    topic, receipt.handle, invisible_ms, counts=not request.suspend
                )
        except CometMQError as error:
            status = status_of(error)
            if status.code != pb.TOO_MANY_REQUESTS:
                raise
            return pb.ChangeInvisibleDurationResponse(status=status, receipt_handle=request.receipt_handle)
        changed = receipt._replace(handle=handle, worker=None)  # it is prolonged no more
        return pb.ChangeInvisibleDurationResponse(status=OK, receipt_handle=str(changed))

    async def forward_message_to_dead_letter_queue(
        self, request: pb.ForwardMessageToDeadLetterQueueRequest, call: Call
    ) -> pb.ForwardMessageToDeadLetterQueueResponse:
        """Store a message among the dead letters of its group."""
        group, topic = checked_group(request.group), checked_topic(request.topic)
        if (holder := self._fellows.holder_of(request.receipt_handle)) is not None:
            answer: pb.ForwardMessageToDeadLetterQueueResponse = await holder.call(
                "ForwardMessageToDeadLetterQueue", request, call.client
            )
            return answer
        async with self._renewals.present(call.client, group, request.receipt_handle) as receipt:
            if call.user:
                await check_place(self._brokers, group, topic, receipt)
            await forward_to_dead_letters(self._brokers, group, topic, receipt, request.message_id)
        status = pb.Status(code=code_of_broker(ResponseCode.SUCCESS), message=str(ResponseCode.SUCCESS.value))
        return pb.ForwardMessageToDeadLetterQueueResponse(status=status)

    async def _ack(
        self, group: str, topic: str, entry: pb.AckMessageEntry, client: ClientKey
    ) -> pb.AckMessageResultEntry:
        status = OK
        try:
            if (holder := self._fellows.holder_of(entry.receipt_handle)) is not None:
                names = {"group": pb.Resource(name=group), "topic": pb.Resource(name=topic)}
                request = pb.AckMessageRequest(entries=[entry], **names)
                answer: pb.AckMessageResponse = await holder.call("AckMessage", request, client)
                return answer.entries[0]
            async with self._renewals.present(client, group, entry.receipt_handle) as receipt:
                await self._brokers.pops(group).ack(topic, receipt.handle)
        except CometMQError as error:
            status = status_of(error)
        return pb.AckMessageResultEntry(
            message_id=entry.message_id, receipt_handle=entry.receipt_handle, status=status
        )
