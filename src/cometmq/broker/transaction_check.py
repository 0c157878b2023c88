"""Asking producers what became of half messages that nobody has ended (CHECK_TRANSACTION_STATE).

A round asks for all that are old enough, as ``cluster.transaction`` decides. A half message is put back, and
that it was is written, in one append; how far the round came is committed once that is on the disk. So a
crash may have producers asked twice, but no half message is forgotten.
(RocketMQ: TransactionalMessageServiceImpl.java, AbstractTransactionalMessageCheckListener.java.)
"""

import asyncio
import logging
from itertools import count
from typing import Final

from cometmq.broker.half_message import QUEUE_ID, asked_for, facts, given_up, put_back
from cometmq.broker.op_queue import OpQueue
from cometmq.broker.producers import Producers
from cometmq.broker.reads import read
from cometmq.broker.topics import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, Topics
from cometmq.cluster.transaction import Rules, Verdict, judge
from cometmq.errors import MessageIllegal, StoreNotWritable
from cometmq.format import properties
from cometmq.format.message_id import offset_message_id
from cometmq.format.properties import PRODUCER_GROUP, UNIQ_KEY
from cometmq.format.record import Record, decode
from cometmq.io.clock import Clock
from cometmq.net.server import Session
from cometmq.store.append import NewMessage
from cometmq.store.get_result import GetStatus
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import ONEWAY_FLAG, Command
from cometmq.wire.headers import CheckTransactionStateHeader, fields

AT_ONCE_MAX: Final = 1_000
"""So many half messages that are ended are passed over before others have their turn."""

_log = logging.getLogger(__name__)


class TransactionCheck:
    """Rounds over the half messages that are not ended."""

    def __init__(
        self,
        store: MessageStore,
        topics: Topics,
        producers: Producers[Session],
        ops: OpQueue,
        clock: Clock,
        rules: Rules,
        *,
        broker_name: str,
    ) -> None:
        self._store = store
        self._topics = topics
        self._producers = producers
        self._ops = ops
        self._clock = clock
        self._rules = rules
        self._broker_name = broker_name
        self._opaque = count()
        self._turn = count()
        self._absent: set[str] = set()
        self._stopped = False

    async def round(self) -> None:
        """Ask for all half messages that are due. Raises OSError or StoreNotWritable."""
        self._absent.clear()
        self._ops.write()
        self._ops.begin_anew_if_gone()
        end = self._store.max_queue_offset(HALF_TOPIC, QUEUE_ID)
        while not self._stopped and await self._go_on(end):
            pass
        for group in sorted(self._absent):
            _log.warning("no producer of group %s is connected to be asked for its half messages", group)
        await self._ops.save()

    def stop(self) -> None:
        """Ask for no more."""
        self._stopped = True

    async def _go_on(self, end: int) -> bool:
        """Look at some half messages before the offset ``end``; tell whether there may be more to do."""
        await asyncio.sleep(0)  # others have their turn
        await self._ops.read_on()
        if self._pass_ended():
            return True
        endings, offset = self._ops.endings, self._ops.endings.half_offset
        if offset >= end:
            return False
        found = await read(self._store, self._store.readings.get(HALF_TOPIC, QUEUE_ID, offset))
        if found.status is not GetStatus.FOUND:
            endings.go_on(max(offset, found.next_offset))  # retention removed some
            return found.next_offset > offset
        for waiting in map(decode, found.records):
            await self._ops.read_on()
            if waiting.queue_offset >= end:
                return False
            if not endings.is_ended(waiting.queue_offset) and not self._handle(waiting):
                return False
            endings.go_on(waiting.queue_offset + 1)
            await asyncio.sleep(0)  # what was asked leaves
        return True

    def _pass_ended(self) -> bool:
        """Pass over half messages that are ended; tell whether there may be more of them."""
        endings = self._ops.endings
        for _ in range(AT_ONCE_MAX):
            if not endings.is_ended(endings.half_offset):
                return False
            endings.go_on(endings.half_offset + 1)
        return True

    def _handle(self, waiting: Record) -> bool:
        """Do about a half message what is to be done; False ends the round before it."""
        verdict = judge(facts(waiting), self._rules, self._clock.now_ms())
        if verdict is Verdict.END_ROUND:
            return False
        try:
            if verdict is Verdict.GIVE_UP:
                self._give_up(
                    waiting, f"its producer was asked {facts(waiting).asks} times, or it is too old"
                )
                return True
            return self._put_back(waiting) if verdict is Verdict.PUT_BACK else self._ask(waiting)
        except StoreNotWritable as error:
            _log.warning("half messages wait on: %s", error)
            return False

    def _put_back(self, waiting: Record) -> bool:
        """Put a half message back that wants to be asked for later."""
        try:
            self._ops.put_back(waiting.queue_offset, put_back(waiting, is_asked=False))
        except MessageIllegal as error:  # its properties have no room
            self._give_up(waiting, str(error))
        return True

    def _ask(self, waiting: Record) -> bool:
        """Put a half message back and ask for it; False if its producers do not read what they were asked."""
        named = properties.decode(waiting.properties)
        members = list(self._producers.members(named.get(PRODUCER_GROUP, "")))
        free = [session for session in members if not session.congested]
        if members and not free:
            return False
        try:
            back = put_back(waiting, is_asked=True)
            asked_for(back, waiting, 0, 0)
            physical_offset, queue_offset = self._ops.put_back(waiting.queue_offset, back)
        except MessageIllegal as error:  # its properties have no room, or do not say for which queue it is
            self._give_up(waiting, str(error))
            return True
        if not free:
            self._absent.add(named.get(PRODUCER_GROUP, ""))
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
            self._question(header, asked_for(back, waiting, physical_offset, queue_offset))
        )
        return True

    def _question(self, header: CheckTransactionStateHeader, record: bytes) -> Command:
        opaque = next(self._opaque) & 0x7FFF_FFFF
        code = RequestCode.CHECK_TRANSACTION_STATE
        return Command(code, opaque, ONEWAY_FLAG, ext_fields=fields(header), body=record)

    def _give_up(self, waiting: Record, why: str) -> None:
        """Move a half message to where operators find it. Raises StoreNotWritable."""
        message: NewMessage = given_up(waiting)
        self._topics.find_or_create(CHECK_MAX_TIME_TOPIC)
        self._store.append([message])
        self._ops.endings.give_up(waiting.queue_offset)
        _log.error(
            "the half message at %d of the half queue is given up: %s; it is in %s",
            waiting.queue_offset,
            why,
            CHECK_MAX_TIME_TOPIC,
        )
