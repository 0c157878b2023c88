"""Forward popped messages to the dead letters of their group.

Source: RocketMQ ``proxy/processor/ConsumerProcessor.java`` (forwardMessageToDeadLetterQueue).
"""

from typing import Final

from cometmq.client.answer import successful
from cometmq.client.handling.send_back import DEAD_LETTER, SEND_BACK_TIMEOUT_MS
from cometmq.format.pop.names import retry_topic
from cometmq.format.record import decode
from cometmq.message import MessageQueue
from cometmq.proxy import messaging_pb2 as pb
from cometmq.proxy.brokers import Brokers
from cometmq.proxy.messages.receipts import ClientReceipt
from cometmq.proxy.outcomes import Failure
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import SendBackHeader, ViewMessageHeader, fields

_RETRIES: Final = 0
_HIDDEN_MS: Final = 30_000
"""How long a message is hidden while it is stored: if that fails, it is delivered again after this."""


async def check_place(brokers: Brokers, group: str, topic: str, receipt: ClientReceipt) -> None:
    """Check that the message of a client's receipt is where it says: brokers forward whatever is there.

    Raises Failure if another one is there, or none; NoRoute, NetworkError, RemoteError.
    """
    handle = receipt.handle
    address = await brokers.routes.master(MessageQueue(topic, handle.broker_name, handle.queue_id))
    header = ViewMessageHeader(max(0, receipt.physical_offset), topic)
    answer = await brokers.connections.request(
        address, Command(RequestCode.VIEW_MESSAGE_BY_ID, ext_fields=fields(header))
    )
    found = decode(answer.body) if answer.code == ResponseCode.SUCCESS else None
    wanted = retry_topic(topic, group, handle.retry_flag), handle.queue_id, handle.offset
    if found is None or (found.topic, found.queue_id, found.queue_offset) != wanted:
        raise Failure(pb.INVALID_RECEIPT_HANDLE, "the receipt handle names the place of another message")


async def forward_to_dead_letters(
    brokers: Brokers, group: str, topic: str, receipt: ClientReceipt, message_id: str
) -> None:
    """Store a popped message among its group's dead letters, and acknowledge it.

    It is hidden first, which uses up its handle: so it cannot be forwarded once more by that.

    Raises Failure if the receipt does not say where the message is; NoRoute, NetworkError, RemoteError.
    """
    handle = receipt.handle
    if receipt.physical_offset < 0:
        raise Failure(pb.INVALID_RECEIPT_HANDLE, "the receipt handle does not say where the message is")
    header = SendBackHeader(
        physical_offset=receipt.physical_offset,
        group=group,
        delay_level=DEAD_LETTER,
        origin_message_id=message_id,
        origin_topic=retry_topic(topic, group, handle.retry_flag),
        max_reconsume_times=_RETRIES,
    )
    pops = brokers.pops(group)
    hidden = await pops.change_invisible(topic, handle, _HIDDEN_MS)
    address = await brokers.routes.master(MessageQueue(topic, handle.broker_name, handle.queue_id))
    command = Command(RequestCode.CONSUMER_SEND_MSG_BACK, ext_fields=fields(header))
    successful(await brokers.connections.request(address, command, SEND_BACK_TIMEOUT_MS))
    await pops.ack(topic, hidden)
