"""SendMessage and RecallMessage.

Source: RocketMQ ``proxy/grpc/v2/producer/SendMessageActivity.java``, ``RecallMessageActivity.java``. Unlike
there, several messages of one send are stored one by one, and each has its own entry in the answer.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from cometmq.client.answer import successful
from cometmq.client.producer.recalls import checked_handle, recall_request
from cometmq.client.producer.send_result import SendResult, SendStatus
from cometmq.client.producer.sending import Selector
from cometmq.errors import CometMQError, NoRoute, SettingsError
from cometmq.format.java.java_hash import java_hash
from cometmq.format.message_id import parse_offset_message_id
from cometmq.message import MessageQueue
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.messages.message_types import LITE_TOPIC, type_of
from cometmq.proxy.messages.sent import checked_messages, outgoing_message, properties_of
from cometmq.proxy.messages.transaction_ids import HalfMessageId
from cometmq.proxy.names import check_count, checked_topic, has_free_type
from cometmq.proxy.outcomes import OK, Failure, code_of_broker, common_status, status_of
from cometmq.proxy.transport import Call
from cometmq.wire.headers import RecallResponseHeader, parse

_MULTIPLIER: Final = 2862933555777941757
_MASK: Final = (1 << 64) - 1


class Sending:
    """Stores the messages of clients.

    Args:
        items_max: messages of one send.
    """

    def __init__(self, brokers: Brokers, items_max: int) -> None:
        self._brokers = brokers
        self._items_max = items_max

    async def send_message(self, request: pb.SendMessageRequest, call: Call) -> pb.SendMessageResponse:
        """Store messages of one topic; answer with an entry for each.

        If the only message of a request is not stored, the whole call fails, as with RocketMQ.
        """
        check_count(len(request.messages), self._items_max, "messages")
        topic = checked_messages(request.messages, self._brokers.clock.now_ms())
        await self._brokers.route(topic)
        accepted = await self._brokers.accepted_types(topic)
        if len(request.messages) == 1:
            entries = [await self._send(request.messages[0], accepted, call)]
        elif any(message.system_properties.HasField("message_group") for message in request.messages):
            entries = [await self._entry(message, accepted, call) for message in request.messages]
        else:
            each = (self._entry(message, accepted, call) for message in request.messages)
            entries = await asyncio.gather(*each)
        status = common_status([entry.status for entry in entries])
        return pb.SendMessageResponse(status=status, entries=entries)

    async def recall_message(self, request: pb.RecallMessageRequest, _call: Call) -> pb.RecallMessageResponse:
        """Recall a delayed message that is not delivered yet."""
        topic = checked_topic(request.topic)
        accepted = await self._brokers.accepted_types(topic)
        if pb.DELAY not in accepted:
            raise Failure(
                pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE, f"topic {topic!r} has no delayed messages to recall"
            )
        try:
            handle = checked_handle(topic, request.recall_handle)
        except SettingsError as error:
            raise Failure(pb.INTERNAL_SERVER_ERROR, f"recall handle is invalid: {error}") from None
        address = await self._brokers.routes.master(MessageQueue(topic, handle.broker_name, 0))
        answer = await self._brokers.connections.request(address, recall_request(topic, handle))
        message_id = parse(RecallResponseHeader, successful(answer).ext_fields).message_id
        return pb.RecallMessageResponse(status=OK, message_id=message_id)

    async def _entry(
        self, message: pb.Message, accepted: Sequence[pb.MessageType], call: Call
    ) -> pb.SendResultEntry:
        """Store one message of several; its failure is that of its entry."""
        try:
            return await self._send(message, accepted, call)
        except CometMQError as error:
            return pb.SendResultEntry(
                status=status_of(error), message_id=message.system_properties.message_id
            )

    async def _send(
        self, message: pb.Message, accepted: Sequence[pb.MessageType], call: Call
    ) -> pb.SendResultEntry:
        topic = message.topic.name
        named = properties_of(message, call.peer)
        found = type_of(named)
        if found not in accepted and not has_free_type(topic):
            expected = " or ".join(pb.MessageType.Name(kind) for kind in accepted) or "UNSPECIFIED"
            raise Failure(
                pb.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE,
                f"TopicMessageType validate failed, the expected type is {expected}, but actual type is "
                f"{pb.MessageType.Name(found)}: topic {topic!r} has the attribute message.type",
            )
        group = message.system_properties.message_group or named.get(LITE_TOPIC)
        try:
            result = await self._brokers.sender(topic).send(
                outgoing_message(message, named), _queue_of(group) if group else None
            )
        except NoRoute as error:  # the topic has a route, so no queue of it can be written
            raise Failure(pb.FORBIDDEN, str(error)) from None
        return _sent_entry(result, is_half=found == pb.TRANSACTION)


def _queue_of(group: str) -> Selector:
    """Return what chooses the queue of a message group."""
    return lambda queues: queues[bucket_of(group, len(queues))]


def _sent_entry(result: SendResult, *, is_half: bool) -> pb.SendResultEntry:
    transaction_id = result.message_id
    if is_half:
        physical_offset = parse_offset_message_id(result.offset_id).physical_offset
        place = result.queue.broker_name, result.queue_offset, physical_offset
        transaction_id = str(HalfMessageId(*place, result.message_id))
    is_safe = result.status is SendStatus.SEND_OK
    status = OK if is_safe else pb.Status(code=code_of_broker(result.status), message=result.status.name)
    return pb.SendResultEntry(
        status=status,
        message_id=result.message_id,
        transaction_id=transaction_id,
        offset=result.queue_offset,
        recall_handle=result.recall_handle or "",
    )


def bucket_of(group: str, count: int) -> int:
    """Return which of ``count`` queues has the messages of a group; ``count`` is at least 1.

    It is Guava's consistent hash of Java's hash of the group's name. Java proxies choose the same queue, so
    the messages of a group keep their order whichever proxy sends them.
    Source: Guava ``Hashing.consistentHash``; RocketMQ ``proxy/grpc/v2/producer/SendMessageActivity.java``.
    """
    state, chosen = java_hash(group) & _MASK, 0
    while True:
        state = (state * _MULTIPLIER + 1) & _MASK
        following = int((chosen + 1) / (((state >> 33) + 1) / (1 << 31)))
        if following >= count:
            return chosen
        chosen = following
