"""Transactions: half messages, which are delivered if the local transaction commits, and the end request.

The producer sends the half message, runs the local transaction, and then sends the broker a commit or a
rollback. Without one the broker asks a producer of the group: see ``client/producer/check_back.py``.

Source: RocketMQ ``client/impl/producer/DefaultMQProducerImpl.java`` (sendMessageInTransaction and
endTransaction).
"""

from collections.abc import Awaitable, Callable
from enum import Enum

import msgspec
from msgspec.structs import replace

from cometmq.client.producer.outgoing import Outgoing
from cometmq.client.producer.send_result import SendResult
from cometmq.errors import MessageIllegal, SettingsError
from cometmq.format import properties, sys_flag
from cometmq.format.message_id import parse_offset_message_id
from cometmq.message import Message, StoredMessage
from cometmq.wire.codes import RequestCode
from cometmq.wire.command import REMARK_LENGTH_MAX
from cometmq.wire.frame import Command
from cometmq.wire.headers import EndTransactionHeader, fields


class TransactionState(Enum):
    """The state of a local transaction.

    COMMIT delivers its message to consumers, ROLLBACK drops it. After UNKNOWN the broker asks again later.
    """

    COMMIT = sys_flag.TRANSACTION_COMMIT
    ROLLBACK = sys_flag.TRANSACTION_ROLLBACK
    UNKNOWN = sys_flag.TRANSACTION_NOT


class TransactionResult(msgspec.Struct, frozen=True, gc=False):
    """The result of a send in a transaction.

    Attributes:
        sent: result of the half message; its queue offset is not that of the committed message.
        state: the state that was sent to the broker.
    """

    sent: SendResult
    state: TransactionState


Execute = Callable[[Message], TransactionState | Awaitable[TransactionState]]
"""Runs the local transaction of a message whose half message is stored."""
Check = Callable[[StoredMessage], TransactionState | Awaitable[TransactionState]]
"""Finds the state of the local transaction of a half message."""


def check_in_transaction(message: Message) -> None:
    """Raise MessageIllegal if a message has a delay level or an idempotence key."""
    if message.delay_level:
        raise MessageIllegal(
            f"delay level {message.delay_level} in a transaction: it comes when it is committed, not later"
        )
    if properties.IDEMPOTENCE_KEY in message.properties:
        raise MessageIllegal(
            "idempotence key in a transaction: each half message is one of its own, with an end of its own"
        )


def half_message(ready: Outgoing, group: str) -> Outgoing:
    """Build a half message from an encoded one. Raises MessageIllegal if its properties get too long."""
    own = {properties.TRANSACTION_PREPARED: "true", properties.PRODUCER_GROUP: group}
    text = ready.properties + properties.text_of(own)
    return replace(
        ready,
        properties=properties.encode_text(text).decode(),
        sys_flag=sys_flag.with_transaction_type(ready.sys_flag, sys_flag.TRANSACTION_PREPARED),
    )


def checked_state(result: object) -> TransactionState:
    """Return the result of a local transaction or a check. Raises SettingsError if it is not a state."""
    if not isinstance(result, TransactionState):
        raise SettingsError(f"a transaction's function returned {result!r}: return a TransactionState")
    return result


def end_header(group: str, sent: SendResult, state: TransactionState) -> EndTransactionHeader:
    """Build the header that ends a transaction. Raises FormatError if the result has no offset id."""
    return EndTransactionHeader(
        producer_group=group,
        half_offset=sent.queue_offset,
        physical_offset=parse_offset_message_id(sent.offset_id).physical_offset,
        decision=state.value,
        message_id=sent.message_id,
        transaction_id=sent.message_id,
        topic=sent.queue.topic,
    )


def end_request(header: EndTransactionHeader, failure: BaseException | None) -> Command:
    """Build the request that ends a transaction; ``failure`` is the reason of an unknown state."""
    remark = None if failure is None else repr(failure)[:REMARK_LENGTH_MAX]
    return Command(RequestCode.END_TRANSACTION, ext_fields=fields(header), remark=remark)
