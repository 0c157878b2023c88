"""The transaction check: ask producers for the state of transactions that nobody has ended.

A round sends CHECK_TRANSACTION_STATE for all half messages that are old enough, as ``cluster.transaction``
decides. A half message is put back, with the op message that says so, in one append; the offset of the round
is committed once these are on the disk. So after a crash producers may be asked twice, but no half message is
forgotten.

One that waits on is left where it is, so that waiting writes nothing, as long as few lie after it and it
lies in the file that the CommitLog is written to: retention removes no record of that file.
(RocketMQ: TransactionalMessageServiceImpl.java, AbstractTransactionalMessageCheckListener.java.)
"""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Final

from cometmq.broker.reads import read
from cometmq.broker.settings_by_subject import TransactionSettings
from cometmq.broker.state.deleted_topics import DeletedTopics
from cometmq.broker.state.producers import ConnectedMember, Producers
from cometmq.broker.state.topics import Topics
from cometmq.broker.timed.half_message import check_record, facts, given_up, put_back
from cometmq.broker.timed.op_queue import OpQueue
from cometmq.cluster.system_names import CHECK_MAX_TIME_TOPIC
from cometmq.cluster.transaction import LEFT_BEFORE_MAX, CheckRules, Verdict, judge
from cometmq.errors import MessageIllegal, StoreNotWritable
from cometmq.format import properties
from cometmq.format.message_id import offset_message_id
from cometmq.format.properties import PRODUCER_GROUP, REAL_TOPIC, UNIQ_KEY
from cometmq.format.record import Record, decode
from cometmq.format.transaction import HALF_TOPIC, QUEUE_ID
from cometmq.logs import get_logger
from cometmq.net.server import Session
from cometmq.store.read.get_result import GetStatus
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import ONEWAY_FLAG, Command
from cometmq.wire.headers import CheckTransactionStateHeader, fields

AT_ONCE_MAX: Final = 1_000
"""Most settled half messages that are skipped before other work of the loop continues."""

HOUR_MS: Final = 3_600_000

_log = get_logger(__name__)


MayAsk = Callable[[Session, ConnectedMember, str], bool]


class TransactionCheck:
    """Rounds over the half messages that are not ended.

    Args:
        ops: the op queue, which has the offset of the round, too.
        rules: which half messages are old enough to be asked about, and which are given up.
        broker_name: of this broker, for the producers.

    Attributes:
        may_ask: returns whether a producer, by its connection, may be asked for a half message of a topic.
    """

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        producers: Producers[Session],
        ops: OpQueue,
        rules: CheckRules,
        *,
        broker_name: str,
        may_ask: MayAsk,
    ) -> None:
        self.may_ask = may_ask
        self._store = store
        self._topics = topics
        self._producers = producers
        self._ops = ops
        self.rules = rules
        self._broker_name = broker_name
        self._opaque = count()
        self._turn = count()
        self._absent: set[str] = set()
        self._at = 0  # half offset of the round; a half message that it left is at or after ``half_offset``
        self._stopped = False
        self._deleted_topics = DeletedTopics(store)

    async def round(self) -> None:
        """Check all half messages that are old enough. Raises OSError or StoreNotWritable."""
        self._absent.clear()
        self._ops.write()
        self._ops.restart_if_recreated()
        end = self._store.max_queue_offset(HALF_TOPIC, QUEUE_ID)
        self._at = self._ops.endings.half_offset
        while not self._stopped and await self._check_some(end):
            pass
        for group in sorted(self._absent):
            _log.warning("no producer of group %s is connected to be asked for its half messages", group)
        await self._ops.save()

    def stop(self) -> None:
        """Check no more half messages."""
        self._stopped = True

    async def _check_some(self, end: int) -> bool:
        """Check some half messages before the offset ``end``; return whether there may be more."""
        await asyncio.sleep(0)  # others have their turn
        await self._ops.read_on()
        if self._pass_settled():
            return True
        offset = self._at
        if offset >= end:
            return False
        found = await read(self._store, self._store.readings.get(HALF_TOPIC, QUEUE_ID, offset))
        if found.status is not GetStatus.FOUND:
            self._pass(max(offset, found.next_offset), is_settled=True)  # retention removed some
            return found.next_offset > offset
        endings = self._ops.endings
        for waiting in map(decode, found.records):
            await self._ops.read_on()
            if waiting.queue_offset >= end:
                return False
            is_over = endings.is_settled(waiting.queue_offset) or self._deleted_topics.has_topic_of(waiting)
            if not is_over and not self._handle(waiting, end):
                return False
            is_settled = is_over or endings.is_settled(waiting.queue_offset)
            self._pass(waiting.queue_offset + 1, is_settled=is_settled)
            await asyncio.sleep(0)  # requests to producers are sent
        return True

    def _pass_settled(self) -> bool:
        """Skip settled half messages; return whether there may be more of them."""
        for _ in range(AT_ONCE_MAX):
            if not self._ops.endings.is_settled(self._at):
                return False
            self._pass(self._at + 1, is_settled=True)
        return True

    def _pass(self, offset: int, *, is_settled: bool) -> None:
        """Advance the round to an offset; all half messages before it are settled unless one was left."""
        if is_settled and self._at == self._ops.endings.half_offset:
            self._ops.endings.advance(offset)
        self._at = offset

    def _handle(self, waiting: Record, end: int) -> bool:
        """Carry out the verdict on a half message; return False to end the round before it."""
        half = facts(waiting)
        verdict = judge(half, self.rules, self._now(waiting))
        if verdict is Verdict.END_ROUND:
            return False
        try:
            if verdict is Verdict.GIVE_UP:
                self._give_up(waiting, f"its producer was asked {half.asks} times")
                return True
            return self._wait_on(waiting, end) if verdict is Verdict.WAIT else self._ask(waiting, end)
        except StoreNotWritable as error:
            _log.warning("half messages wait on: %s", error)
            return False

    def _now(self, waiting: Record) -> int:
        """Return the wall clock's time, without the steps by which it was set since a record was stored."""
        return self._store.clock.now_ms() - self._store.clock.since(waiting.physical_offset)

    def _wait_on(self, waiting: Record, end: int) -> bool:
        """Leave a half message where it is, or put it back, uncounted, if retention may remove it there."""
        is_near_the_end = end - waiting.queue_offset <= LEFT_BEFORE_MAX
        if is_near_the_end and self._store.retention.keeps(waiting.physical_offset):
            return True
        try:
            self._ops.put_back(waiting.queue_offset, put_back(waiting, is_asked=False))
        except MessageIllegal as error:  # its properties have no room
            self._give_up(waiting, str(error))
        return True

    def _wait_for_producer(self, waiting: Record, group: str, end: int) -> bool:
        """Keep a half message whose group has no producer connected; give it up if it is too old."""
        if facts(waiting).is_too_old(self.rules, self._now(waiting)):
            hours = self.rules.age_ms_max // HOUR_MS
            why = f"it is older than {hours} h, and no producer of group {group} is connected"
            self._give_up(waiting, why)
            return True
        self._absent.add(group)
        return self._wait_on(waiting, end)

    def _ask(self, waiting: Record, end: int) -> bool:
        """Ask a producer about a half message that is put back; return False if all of them are congested."""
        named = properties.decode(waiting.properties)
        group, topic = named.get(PRODUCER_GROUP, ""), named.get(REAL_TOPIC, "")
        members = [
            session
            for session, member in self._producers.members(group).items()
            if self.may_ask(session, member, topic)
        ]
        if not members:
            return self._wait_for_producer(waiting, group, end)
        free = [session for session in members if not session.congested]
        if not free:
            return False
        try:
            back = put_back(waiting, is_asked=True)
            check_record(back, waiting, 0, 0)
            physical_offset, queue_offset = self._ops.put_back(waiting.queue_offset, back)
        except MessageIllegal as error:  # its properties have no room, or do not say for which queue it is
            self._give_up(waiting, str(error))
            return True
        header = CheckTransactionStateHeader(
            half_offset=queue_offset,
            physical_offset=physical_offset,
            topic=waiting.topic,
            message_id=named.get(UNIQ_KEY),
            transaction_id=named.get(UNIQ_KEY),
            offset_message_id=offset_message_id(waiting.store_host, physical_offset),
            broker_name=self._broker_name,
        )
        free[next(self._turn) % len(free)].send(
            self._check_request(header, check_record(back, waiting, physical_offset, queue_offset))
        )
        return True

    def _check_request(self, header: CheckTransactionStateHeader, record: bytes) -> Command:
        opaque = next(self._opaque) & 0x7FFF_FFFF
        code = RequestCode.CHECK_TRANSACTION_STATE
        return Command(code, opaque, ONEWAY_FLAG, ext_fields=fields(header), body=record)

    def _give_up(self, waiting: Record, why: str) -> None:
        """Append a half message to the topic for operators, and settle it. Raises StoreNotWritable."""
        self._topics.find_or_create(CHECK_MAX_TIME_TOPIC)
        self._store.append([given_up(waiting)])
        self._ops.endings.give_up(waiting.queue_offset)
        _log.error(
            "the half message at %d of the half queue is given up: %s; it is in %s",
            waiting.queue_offset,
            why,
            CHECK_MAX_TIME_TOPIC,
        )


def rules_of(settings: TransactionSettings, reserved_hours: int) -> CheckRules:
    """Return the rules by which half messages are checked."""
    age_ms_max = reserved_hours * 3_600_000
    return CheckRules(settings.transaction_time_out, settings.transaction_check_max, age_ms_max)
