"""Sends that leaf operations leave, as commands: what they must satisfy, and what is stored of them.

Rare is a send to a topic or queue that is not known yet, to a retry topic or without a queue; one in a
transaction, with a delay, a time to be delivered or an idempotence key; one in the old form or an unusual
spelling; and one that is refused. (RocketMQ: SendMessageProcessor.java.)
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from cometmq.broker.refused import Refused
from cometmq.broker.requests.additions import Additions
from cometmq.broker.requests.recalls import handle_of
from cometmq.broker.requests.targets import Target, Targets
from cometmq.broker.state.idempotence import Idempotence, Keys
from cometmq.broker.timed.delays import Delays
from cometmq.broker.timed.half_message import half
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.format.properties import (
    DELAY,
    IDEMPOTENCE_KEY,
    TAGS,
    TIMER_ASKS,
    TRANSACTION_PREPARED,
    UNIQ_KEY,
    WAIT,
)
from cometmq.format.property_numbers import check as check_numbers
from cometmq.format.property_numbers import is_true, number_or
from cometmq.format.sys_flag import TRANSACTION_MASK, TRANSACTION_NOT, with_transaction_type
from cometmq.format.transaction import HALF_TOPIC
from cometmq.net.server import Session
from cometmq.store.append import NewMessage
from cometmq.wire import batch
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import SendHeader, parse
from cometmq.wire.requests import SENDS

_TIMED: Final = frozenset({TRANSACTION_PREPARED, DELAY, *TIMER_ASKS})
_NOT_IN_BATCH: Final = (
    f"a batch takes no delayed, transactional or {RETRY_PREFIX} messages: send them one by one"
)


class RareSend(NamedTuple):
    """A send that was checked.

    Attributes:
        messages: what is stored of it.
        queue_id: what its response says, as do the next ones.
        unique_key: of the message, or of the whole batch.
        waits: whether it wants to be answered once the disk has it, under SYNC_FLUSH.
        keys: an idempotence key for each message, or nothing.
        recall_handle: identifies a timed message.
    """

    command: Command
    target: Target
    messages: list[NewMessage]
    queue_id: int
    unique_key: str
    waits: bool
    keys: Keys = ()
    recall_handle: str | None = None


class RareSends:
    """Checks sends, and rewrites those that wait for something.

    Args:
        body_size_max: the most bytes of a body.

    Attributes:
        store_host: the broker's address as records hold it.
        added: the properties that are added to each message, as they are stored.
        idempotence: the keys of messages that were stored before.
    """

    def __init__(
        self,
        targets: Targets,
        additions: Additions,
        idempotence: Idempotence,
        delays: Delays,
        *,
        broker_name: str,
        rejects_transactions: bool,
        body_size_max: int,
        store_host: bytes,
    ) -> None:
        self._targets = targets
        self._additions = additions
        self.added = additions.added
        self.idempotence = idempotence
        self._delays = delays
        self._broker_name = broker_name
        self.rejects_transactions = rejects_transactions
        self._body_size_max = body_size_max
        self.store_host = store_host

    def target_of(self, command: Command) -> tuple[SendHeader, Target, int]:
        """Return a send's header, and the topic and queue that it goes to, created if need be.

        Raises CometMQError if it must be refused: see ``code_of``.
        """
        header = parse(SENDS[command.code], command.ext_fields)
        target = self._targets.find_or_create(header, command.version)
        queue_id = self._targets.queue_id(header.queue_id, target)
        size = len(command.body)
        if not 0 < size <= self._body_size_max:
            raise MessageIllegal(
                f"the body has {size} bytes: send 1 to {self._body_size_max} (maxMessageSize)"
            )
        return header, target, queue_id

    def checked(
        self, session: Session, command: Command, header: SendHeader, target: Target, queue_id: int
    ) -> RareSend:
        """Return what is stored of a send, and answered. Raises CometMQError as ``target_of`` does."""
        if header.batch or command.code == RequestCode.SEND_BATCH_MESSAGE:
            return self._checked_batch(session, command, header, target, queue_id)
        data, named = self._additions.complete(header.properties)
        message = NewMessage(
            target.topic,
            queue_id,
            command.body,
            data,
            header.born_time,
            session.born_host,
            self.store_host,
            named.get(TAGS),
            header.flag,
            header.sys_flag,
            header.reconsume_times,
        )
        recall_handle = None
        if header.sys_flag & TRANSACTION_MASK or not _TIMED.isdisjoint(named):
            message = self._rewritten(header, named, message)
            recall_handle = handle_of(message, self._broker_name)
        has_key = IDEMPOTENCE_KEY in named and message.topic != HALF_TOPIC
        keys = self.idempotence.keys_of(target.topic, [named]) if has_key else ()
        waits = is_true(named.get(WAIT, "true"))
        return RareSend(command, target, [message], queue_id, named[UNIQ_KEY], waits, keys, recall_handle)

    def _checked_batch(
        self, session: Session, command: Command, header: SendHeader, target: Target, queue_id: int
    ) -> RareSend:
        _, named = self._additions.complete(header.properties)
        is_timed = header.sys_flag & TRANSACTION_MASK or not _TIMED.isdisjoint(named)
        if is_timed or header.topic.startswith(RETRY_PREFIX):
            raise MessageIllegal(_NOT_IN_BATCH)
        members = batch.decode(command.body)
        each = [properties.decode(member.properties) for member in members]
        for of_member in each:
            if not _TIMED.isdisjoint(of_member):
                _check_member(of_member)
        messages = [
            NewMessage(
                target.topic,
                queue_id,
                member.body,
                member.properties,  # a member's are stored as they were sent
                header.born_time,
                session.born_host,
                self.store_host,
                of_member.get(TAGS),
                member.flag,
                header.sys_flag,
                header.reconsume_times,
            )
            for member, of_member in zip(members, each, strict=True)
        ]
        waits = is_true(named.get(WAIT, "true"))
        keys = self.idempotence.keys_of(target.topic, each)
        return RareSend(command, target, messages, queue_id, named[UNIQ_KEY], waits, keys)

    def _rewritten(self, header: SendHeader, named: dict[str, str], message: NewMessage) -> NewMessage:
        """Return a message that is delayed, timed or in a transaction as it is stored.

        Raises MessageIllegal or Refused.
        """
        check_numbers(named)
        is_prepared = is_true(named.get(TRANSACTION_PREPARED))
        is_retry = header.reconsume_times > 0 and number_or(DELAY, named.get(DELAY), 0) > 0
        if is_prepared and not is_retry:
            if self.rejects_transactions:
                raise Refused(
                    ResponseCode.NO_PERMISSION,
                    "this broker takes no transactional messages: see rejectTransactionMessage",
                )
            self._delays.waiting(message)  # what it asks for is refused now, not when it is committed
            return half(message)
        if header.sys_flag & TRANSACTION_MASK:
            if not is_prepared:
                raise MessageIllegal(
                    f"sysFlag {header.sys_flag} has transaction bits, but property {TRANSACTION_PREPARED} is "
                    "not true: nobody would ever be given the message; set both or neither"
                )
            # A consumer sends back what was committed: with these bits nobody would be given it again.
            message = message._replace(sys_flag=with_transaction_type(message.sys_flag, TRANSACTION_NOT))
        return self._delayed(message)

    def _delayed(self, message: NewMessage) -> NewMessage:
        """Return a message as it waits for its time, if it asks for that. Dead letters do not wait."""
        if not message.topic.startswith(DLQ_PREFIX):
            return self._delays.waiting(message)
        named = properties.decode(message.properties) | {DELAY: "-1"}
        return message._replace(properties=properties.encode(named))


def _check_member(named: Mapping[str, str]) -> None:
    """Check a batch's message that may ask for what it cannot get there. Raises MessageIllegal."""
    check_numbers(named)
    is_prepared = is_true(named.get(TRANSACTION_PREPARED))
    if is_prepared or number_or(DELAY, named.get(DELAY), 0) > 0 or not named.keys().isdisjoint(TIMER_ASKS):
        raise MessageIllegal(_NOT_IN_BATCH)
