"""Transactions: a half message, which nobody gets until the local transaction has ended, and its end.

The producer sends the half message, runs the local transaction, and tells the broker to commit or to roll
back what it keeps. A broker that is not told asks a producer of the group: see
``client/producer/check_back.py``.

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
    """What became of a local transaction, and so shall become of its message.

    COMMIT lets consumers have it, ROLLBACK drops it. With UNKNOWN the broker asks again later.
    """

    COMMIT = sys_flag.TRANSACTION_COMMIT
    ROLLBACK = sys_flag.TRANSACTION_ROLLBACK
    UNKNOWN = sys_flag.TRANSACTION_NOT


class TransactionResult(msgspec.Struct, frozen=True, gc=False):
    """What a send in a transaction gave.

    Attributes:
        sent: of the half message; its queue offset is not that which the message gets when it is committed.
        state: what the broker was told.
    """

    sent: SendResult
    state: TransactionState


Execute = Callable[[Message], TransactionState | Awaitable[TransactionState]]
"""Runs the local transaction of a message, whose half message is stored."""
Check = Callable[[StoredMessage], TransactionState | Awaitable[TransactionState]]
"""Finds out what became of the local transaction of a half message."""


def refuse_unfit(message: Message) -> None:
    """Raise MessageIllegal if a message can be sent, but not in a transaction."""
    if message.delay_level:
        raise MessageIllegal(
            f"delay level {message.delay_level} in a transaction: it comes when it is committed, not later"
        )
    if properties.IDEMPOTENCE_KEY in message.properties:
        raise MessageIllegal(
            "idempotence key in a transaction: each half message is one of its own, with an end of its own"
        )


def half(ready: Outgoing, group: str) -> Outgoing:
    """Make a half message of one that is ready. Raises MessageIllegal if its properties get too long."""
    own = {properties.TRANSACTION_PREPARED: "true", properties.PRODUCER_GROUP: group}
    text = ready.properties + properties.text_of(own)
    return replace(
        ready,
        properties=properties.encode_text(text).decode(),
        sys_flag=sys_flag.with_transaction_type(ready.sys_flag, sys_flag.TRANSACTION_PREPARED),
    )


def state_of(answer: object) -> TransactionState:
    """Give what a local transaction or a check has given. Raises SettingsError if that is no state."""
    if not isinstance(answer, TransactionState):
        raise SettingsError(f"a transaction's function gave {answer!r}: let it return a TransactionState")
    return answer


def end_of(group: str, sent: SendResult, state: TransactionState) -> EndTransactionHeader:
    """Make what ends the transaction of a half message. Raises FormatError if the broker gave it no place."""
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
    """Make the request; a failure is why the state is not known."""
    remark = None if failure is None else repr(failure)[:REMARK_LENGTH_MAX]
    return Command(RequestCode.END_TRANSACTION, ext_fields=fields(header), remark=remark)
