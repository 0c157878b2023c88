"""SEND_MESSAGE, its V2 and batches. This is the hot path.

All sends of one socket read become one append, and one wait for the disk where they want that. What is
the same from message to message is prepared: the topic's checks, the added properties, the answer's
text. (RocketMQ: SendMessageProcessor.java.)
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

from cometmq.broker.disk_wait import DiskWaits
from cometmq.broker.fast_failure import FastFailure
from cometmq.broker.refused import Refused, code_of
from cometmq.broker.requests.additions import Additions
from cometmq.broker.requests.bulk_sends import BulkSends
from cometmq.broker.requests.early_sends import EarlySends
from cometmq.broker.requests.recalls import handle_of
from cometmq.broker.requests.targets import Target, Targets
from cometmq.broker.settings import BrokerSettings
from cometmq.broker.state.idempotence import Idempotence, Keys
from cometmq.broker.state.rates import Rates
from cometmq.broker.state.saved_entries import Change
from cometmq.broker.state.topics import HALF_TOPIC
from cometmq.broker.timed.delays import Delays
from cometmq.broker.timed.half_message import half
from cometmq.errors import CometMQError, MessageIllegal, StoreNotWritable
from cometmq.format import properties
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.format.message_id import offset_message_id
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
from cometmq.net.server import Session
from cometmq.store.append import Appended, NewMessage
from cometmq.store.store import MessageStore
from cometmq.wire import batch
from cometmq.wire.bodies import TopicConfig
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import SendHeader, parse
from cometmq.wire.requests import SENDS
from cometmq.wire.template import ResponseTemplate

_RARE: Final = frozenset({TRANSACTION_PREPARED, DELAY, *TIMER_ASKS})
_NOT_IN_BATCH: Final = (
    f"a batch takes no delayed, transactional or {RETRY_PREFIX} messages: send them one by one"
)


class _Sent(NamedTuple):
    """One send on its way: which of the batch's messages are its own, and what its answer says.

    With ``keys``, one of each of its messages, it may be one that is stored already. A timed one has a
    ``recall_handle``. It is not answered before what creates its topic is known: see ``Target``.
    """

    command: Command
    begin: int
    end: int
    queue_id: int
    unique_key: str
    wait: bool
    keys: Keys = ()
    recall_handle: str | None = None
    creation: Change[TopicConfig] | None = None


class Sends:
    """Takes messages, stores them and answers.

    Args:
        store_host: the broker's address as records hold it.
        constants: fields that each answer carries.

    Attributes:
        bulk: takes sends before anybody makes commands of them, once the kernels are loaded.
        disk_waits: who waits for the disk.
    """

    def __init__(
        self,
        store: MessageStore,
        targets: Targets,
        additions: Additions,
        rates: Rates,
        idempotence: Idempotence,
        delays: Delays,
        settings: BrokerSettings,
        *,
        store_host: bytes,
        constants: dict[str, str],
    ) -> None:
        self._store = store
        self._targets = targets
        self._additions = additions
        self._rates = rates
        self._idempotence = idempotence
        self._store_host = store_host
        self._host_id = store_host.hex().upper()
        self._constants = constants
        self._names = ("msgId", "queueId", "queueOffset", "transactionId")
        self._template = ResponseTemplate(self._names, constants)
        self.disk_waits = DiskWaits(store)
        self._fast_failure = FastFailure(
            settings, store.settings.os_page_cache_busy_time_out_mills, self.disk_waits
        )
        self.bulk = BulkSends(
            store,
            targets,
            additions,
            rates,
            self.disk_waits,
            self._fast_failure,
            self._template.pieces(),
            store_host,
        )
        self._rejects_transactions = settings.reject_transaction_message
        self._body_size_max = store.settings.max_message_size
        self._delays = delays
        self._broker_name = settings.broker_name
        self._early = EarlySends(self.handle, self._refuse, settings.early_bytes_total_max)

    def handle(self, session: Session, commands: Sequence[Command]) -> None:
        """Store and answer the sends of one socket read."""
        if (why := self._fast_failure.refusal(session, len(commands))) is not None:
            for command in commands:
                self._refuse(session, command, ResponseCode.SYSTEM_BUSY, why)
            return
        messages: list[NewMessage] = []
        sends: list[_Sent] = []
        for command in commands:
            begin = len(messages)
            try:
                sent = self._take(session, command, messages)
            except CometMQError as error:
                self._refuse(session, command, code_of(error), str(error))
                del messages[begin:]
                continue
            if sent is None:
                continue
            if not sent.keys:
                sends.append(sent)
                continue
            if begin:
                self._append(session, sends, messages[:begin])
            self._append_new(session, sent, messages[begin:])
            sends, messages = [], []
        if messages:
            self._append(session, sends, messages)

    def _take(self, session: Session, command: Command, messages: list[NewMessage]) -> _Sent | None:
        """Check one send and add its messages; None if it has to wait for its topic.

        Raises CometMQError: see ``code_of``.
        """
        header = parse(SENDS[command.code], command.ext_fields)
        target = self._targets.find(header, command.version)
        queue_id = self._targets.queue_id(header.queue_id, target)
        body = command.body
        if not 0 < len(body) <= self._body_size_max:
            raise MessageIllegal(
                f"the body has {len(body)} bytes: send 1 to {self._body_size_max} (maxMessageSize)"
            )
        creation = target.creation
        if creation is not None and not creation.is_saved:
            self._early.add(creation, session, command)
            return None
        begin = len(messages)
        if header.batch or command.code == RequestCode.SEND_BATCH_MESSAGE:
            unique_key, wait, keys = self._take_batch(session, header, target, queue_id, body, messages)
            return _Sent(command, begin, len(messages), queue_id, unique_key, wait, keys, creation=creation)
        data, named = self._additions.complete(header.properties)
        message = NewMessage(
            target.topic,
            queue_id,
            body,
            data,
            header.born_time,
            session.born_host,
            self._store_host,
            named.get(TAGS),
            header.flag,
            header.sys_flag,
            header.reconsume_times,
        )
        recall_handle = None
        if header.sys_flag & TRANSACTION_MASK or not _RARE.isdisjoint(named):
            message = self._rare(header, named, message)
            recall_handle = handle_of(message, self._broker_name)
        messages.append(message)
        has_key = IDEMPOTENCE_KEY in named and message.topic != HALF_TOPIC
        keys = self._idempotence.keys_of(target.topic, [named]) if has_key else ()
        wait = is_true(named.get(WAIT, "true"))
        unique_key = named[UNIQ_KEY]
        return _Sent(command, begin, begin + 1, queue_id, unique_key, wait, keys, recall_handle, creation)

    def _rare(self, header: SendHeader, named: dict[str, str], message: NewMessage) -> NewMessage:
        """Give a message that is delayed, timed or in a transaction as it is stored.

        Raises MessageIllegal or Refused.
        """
        check_numbers(named)
        is_prepared = is_true(named.get(TRANSACTION_PREPARED))
        is_retry = header.reconsume_times > 0 and number_or(DELAY, named.get(DELAY), 0) > 0
        if is_prepared and not is_retry:
            if self._rejects_transactions:
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
        return self._wait(message)

    def _wait(self, message: NewMessage) -> NewMessage:
        """Give a message as it waits for its time, if it asks for that. Dead letters do not wait."""
        if not message.topic.startswith(DLQ_PREFIX):
            return self._delays.waiting(message)
        named = properties.decode(message.properties) | {DELAY: "-1"}
        return message._replace(properties=properties.encode(named))

    def _take_batch(
        self,
        session: Session,
        header: SendHeader,
        target: Target,
        queue_id: int,
        body: bytes,
        messages: list[NewMessage],
    ) -> tuple[str, bool, Keys]:
        """Add the messages of a batch; give its unique key, whether it waits for the disk, and their keys."""
        _, named = self._additions.complete(header.properties)
        rare = header.sys_flag & TRANSACTION_MASK or not _RARE.isdisjoint(named)
        if rare or header.topic.startswith(RETRY_PREFIX):
            raise MessageIllegal(_NOT_IN_BATCH)
        members = batch.decode(body)
        each = [properties.decode(member.properties) for member in members]
        for of_member in each:
            if not _RARE.isdisjoint(of_member):
                _check_member(of_member)
        messages += [
            NewMessage(
                target.topic,
                queue_id,
                member.body,
                member.properties,  # a member's are stored as they were sent
                header.born_time,
                session.born_host,
                self._store_host,
                of_member.get(TAGS),
                member.flag,
                header.sys_flag,
                header.reconsume_times,
            )
            for member, of_member in zip(members, each, strict=True)
        ]
        wait = is_true(named.get(WAIT, "true"))
        return named[UNIQ_KEY], wait, self._idempotence.keys_of(target.topic, each)

    def _append(self, session: Session, sends: list[_Sent], messages: list[NewMessage]) -> None:
        begun_ms = self._rates.put_times.begin()
        try:
            appended = self._store.append(messages)
        except StoreNotWritable as error:
            self._refuse_all(session, sends, ResponseCode.SERVICE_NOT_AVAILABLE, str(error))
        except MessageIllegal as error:
            if len(sends) == 1:
                self._refuse_all(session, sends, ResponseCode.MESSAGE_ILLEGAL, str(error))
                return
            for sent in sends:  # one of them is to blame, the others are not
                own = messages[sent.begin : sent.end]
                self._append(session, [sent._replace(begin=0, end=len(own))], own)
        else:
            self._note(messages, appended, begun_ms)
            self._answer_when_safe(session, sends, appended, begun_ms)

    def _append_new(self, session: Session, sent: _Sent, messages: list[NewMessage]) -> None:
        """Append what of a send with idempotence keys is new; for the rest answer where the first is.

        That is written before: so if answers wait for the disk, it is there by then.
        """
        begun_ms, end = self._rates.put_times.begin(), self._store.written_offset

        def append(new: Sequence[NewMessage]) -> list[Appended]:
            appended = self._store.append(new)
            self._note(new, appended, begun_ms)
            return appended

        try:
            places = self._idempotence.append(sent.keys, sent.queue_id, messages, append)
        except (StoreNotWritable, MessageIllegal) as error:
            self._refuse(session, sent.command, code_of(error), str(error))
            return
        sent = sent._replace(begin=0, end=len(places), queue_id=places[0].queue_id)
        if places[0].appended.physical_offset < end:  # the handle of the first one takes that back
            sent = sent._replace(recall_handle=None)
        self._answer_when_safe(session, [sent], [place.appended for place in places], begun_ms)

    def _note(self, messages: Sequence[NewMessage], appended: Sequence[Appended], begun_ms: int) -> None:
        """Note what was appended."""
        self._fast_failure.note_append(self._rates.put_times.since(begun_ms))
        self.bulk.learn(messages)
        self._rates.stored.total += len(messages)
        self._rates.stored_bytes.total += self._store.written_offset - appended[0].physical_offset

    def _answer_when_safe(
        self, session: Session, sends: list[_Sent], appended: list[Appended], begun_ms: int
    ) -> None:
        """Answer at once, or under SYNC_FLUSH, to those who want to wait, when the disk has the messages."""
        waiting = [sent for sent in sends if sent.wait] if self._store.settings.sync_flush else []
        if not waiting:
            self._answer(session, sends, appended)
            self._rates.put_times.end(begun_ms, len(appended))
            return
        self._answer(session, [sent for sent in sends if not sent.wait], appended)
        answer = partial(self._answer, session, waiting, appended)
        self.disk_waits.add(self._rates.put_times.ending(begun_ms, len(appended), answer), len(waiting))

    def _answer(
        self, session: Session, sends: list[_Sent], appended: list[Appended], unsafe: str | None = None
    ) -> None:
        """Answer success, or FLUSH_DISK_TIMEOUT with the reason ``unsafe``."""
        for command, begin, end, queue_id, unique_key, _, _, recall_handle, creation in sends:
            if command.is_oneway:
                continue
            first = appended[begin]
            if end == begin + 1:
                message_id = f"{self._host_id}{first.physical_offset:016X}"
            else:
                ids = (
                    offset_message_id(self._store_host, one.physical_offset) for one in appended[begin:end]
                )
                message_id = ",".join(ids)
            values = (message_id, str(queue_id), str(first.queue_offset), unique_key)
            if unsafe is None and recall_handle is None:
                answer: bytes | Command = self._template.encode(command, values)
            else:
                code = ResponseCode.SUCCESS if unsafe is None else ResponseCode.FLUSH_DISK_TIMEOUT
                fields = dict(zip(self._names, values, strict=True)) | self._constants
                if recall_handle is not None:
                    fields["recallHandle"] = recall_handle
                answer = response(command, code, unsafe, fields)
            if creation is None:
                session.send(answer)
            else:
                creation.when_known(partial(session.send, answer))

    def _refuse_all(self, session: Session, sends: list[_Sent], code: ResponseCode, remark: str) -> None:
        for sent in sends:
            self._refuse(session, sent.command, code, remark)

    def _refuse(self, session: Session, command: Command, code: ResponseCode, remark: str) -> None:
        self._rates.refused.total += 1
        if not command.is_oneway:
            session.send(response(command, code, remark, self._constants))


def _check_member(named: Mapping[str, str]) -> None:
    """Check a batch's message that may ask for what it cannot get there. Raises MessageIllegal."""
    check_numbers(named)
    is_prepared = is_true(named.get(TRANSACTION_PREPARED))
    if is_prepared or number_or(DELAY, named.get(DELAY), 0) > 0 or not named.keys().isdisjoint(TIMER_ASKS):
        raise MessageIllegal(_NOT_IN_BATCH)
