"""END_TRANSACTION: a producer commits a half message, or rolls it back.

A half message that is ended already is not ended again: producers retry, and may be asked while their request
is on its way. For one that nobody ends the producer is asked: see ``transaction_check``. A request with an
offset that the half message had before the broker was started may be refused: the offset to which it was put
back is not known any more. (RocketMQ: EndTransactionProcessor.java.)
"""

from functools import partial

from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused
from cometmq.broker.state.deleted_topics import DeletedTopics
from cometmq.broker.state.rates import Rates
from cometmq.broker.timed.delays import Delays
from cometmq.broker.timed.half_message import committed, facts, resumed
from cometmq.broker.timed.op_queue import OpQueue
from cometmq.broker.timed.transaction_check import TransactionCheck
from cometmq.cluster.system_names import CHECK_MAX_TIME_TOPIC
from cometmq.errors import CometMQError, FormatError
from cometmq.format import properties
from cometmq.format.message_id import parse_offset_message_id
from cometmq.format.properties import CHECK_IMMUNITY_TIME, PRODUCER_GROUP, REAL_TOPIC
from cometmq.format.record import Record, decode
from cometmq.format.sys_flag import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK
from cometmq.format.transaction import HALF_TOPIC
from cometmq.logs import get_logger
from cometmq.net.server import Session
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import EndTransactionHeader
from cometmq.wire.headers.admin import ResumeCheckHeader

_log = get_logger(__name__)


class Transactions:
    """Ends transactions."""

    def __init__(
        self,
        store: MessageStore,
        reads: Reads,
        ops: OpQueue,
        rates: Rates,
        delays: Delays,
        check: TransactionCheck,
    ) -> None:
        self._store = store
        self._reads = reads
        self._ops = ops
        self._rates = rates
        self._check = check
        self._delays = delays
        self._deleted_topics = DeletedTopics(store)

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.END_TRANSACTION: self.end,
            RequestCode.RESUME_CHECK_HALF_MESSAGE: self.resume,
        }

    def end(self, session: Session, command: Command, header: EndTransactionHeader) -> Command | None:
        """END_TRANSACTION; a producer that does not know the outcome yet is asked later."""
        if header.decision == TRANSACTION_NOT:
            return response(command)
        if header.decision not in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"commitOrRollback {header.decision}: {TRANSACTION_COMMIT} commits, "
                f"{TRANSACTION_ROLLBACK} rolls back, with {TRANSACTION_NOT} the broker asks later",
            )
        reading = self._store.readings.record(header.physical_offset)
        return self._reads.answer(session, command, reading, partial(self._end_logged, command, header))

    def resume(self, session: Session, command: Command, header: ResumeCheckHeader) -> Command | None:
        """RESUME_CHECK_HALF_MESSAGE: append a half message again that was given up; producers are asked."""
        try:
            where = parse_offset_message_id(header.message_id or "").physical_offset
        except FormatError as error:
            raise Refused(ResponseCode.INVALID_PARAMETER, str(error)) from None

        def append(data: bytes | None) -> Command:
            waiting = None if data is None else decode(data)
            if waiting is None or waiting.topic != CHECK_MAX_TIME_TOPIC:
                raise Refused(
                    ResponseCode.SYSTEM_ERROR,
                    f"there is no message of {CHECK_MAX_TIME_TOPIC} at {where}: only half messages that were "
                    "given up can be checked again",
                )
            (appended,) = self._store.append([resumed(waiting)])
            self._rates.stored.total += 1
            self._rates.stored_bytes.total += appended.size
            return response(command)

        return self._reads.answer(session, command, self._store.readings.record(where), append)

    def _end_logged(self, command: Command, header: EndTransactionHeader, data: bytes | None) -> Command:
        """End a transaction; log errors, since most producers do not wait for the response."""
        try:
            self._end(header, self._find(header, data))
        except CometMQError as error:
            _log.warning("the transaction of message %s is not ended: %s", header.message_id, error)
            raise
        return response(command)

    def _end(self, header: EndTransactionHeader, waiting: Record) -> None:
        self._ops.restart_if_recreated()
        endings = self._ops.endings
        latest = endings.latest(waiting.queue_offset)
        if not endings.is_remembered(latest):
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the half message at {latest} of the half queue is settled, and its outcome is unknown now: "
                f"it was ended, or its producers are asked for it, or it is in {CHECK_MAX_TIME_TOPIC}",
            )
        if endings.is_ended(latest):
            return
        if header.decision == TRANSACTION_COMMIT and not self._deleted_topics.has_topic_of(waiting):
            (appended,) = self._store.append([self._delays.waiting(committed(waiting))])
            self._rates.stored.total += 1
            self._rates.stored_bytes.total += appended.size
        self._ops.end(latest)

    def _find(self, header: EndTransactionHeader, data: bytes | None) -> Record:
        """Return the half message that a request names. Raises Refused."""
        if data is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
        waiting = decode(data)
        if waiting.topic != HALF_TOPIC:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"the record at {header.physical_offset} is no half message"
            )
        self._refuse_late(header, waiting)
        named = properties.decode(waiting.properties)
        group, topic = named.get(PRODUCER_GROUP), named.get(REAL_TOPIC)
        if header.topic and header.topic not in (topic, HALF_TOPIC):  # clients name the latter if asked
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"The topic wrong: {header.topic}, the message is for {topic}"
            )
        if group != header.producer_group:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"The producer group wrong: {header.producer_group}, the message is of {group}",
            )
        if waiting.queue_offset != header.half_offset:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"The transaction state table offset wrong: {header.half_offset}, "
                f"the message's is {waiting.queue_offset}",
            )
        return waiting

    def _refuse_late(self, header: EndTransactionHeader, waiting: Record) -> None:
        """Check that the message's own immunity is not over, unless the broker asked. Raises Refused."""
        immunity_ms = facts(waiting).own_immunity_ms(self._check.rules)
        if header.from_check or immunity_ms is None:
            return
        now = self._store.clock.now_ms() - self._store.clock.since(waiting.physical_offset)
        age_ms = now - waiting.born_time
        if age_ms > immunity_ms:
            raise Refused(
                ResponseCode.ILLEGAL_OPERATION,
                f"the message was created {age_ms} ms ago, and by its {CHECK_IMMUNITY_TIME} the broker asks "
                f"after {immunity_ms} ms: answer that request",
            )
