"""Popped messages that nobody acknowledged come back: they are stored again in the group's retry topic.

Each queue of the revive topic is read behind the offset that ``consumerOffset.json`` has for REVIVE_GROUP.
``cluster.pop.revive`` decides which of its check points are complete; their messages are read, and stored
again with one more of the consumed times::

    revive topic ─► check points, acknowledgements ─► complete ─► messages read ─► retry topic ─► committed
                                                                      └─► unreadable: a new check point

Offsets are committed behind messages that are stored, and saved every few seconds. So after a kill check
points are read again whose messages are in retry topics: ``stored_before`` finds those. While no check point
is open nothing runs. (RocketMQ: PopReviveService.java.)
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from cometmq.broker.appending import append_legal
from cometmq.broker.reads import read
from cometmq.broker.settings_by_subject import PopSettings
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.in_flight import InFlight
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.saved_entries import Change
from cometmq.broker.state.topics import Topics
from cometmq.broker.timed.revive_log import ReviveLog
from cometmq.broker.timed.stored_before import StoredBefore
from cometmq.broker.timed.timed_messages import TimedMessages
from cometmq.cluster.pop.revive import OpenCheckPoint, ReviveQueue, put_again
from cometmq.errors import CometMQError, FormatError, IllegalName, MessageIllegal, StoreNotWritable
from cometmq.format import properties
from cometmq.format.pop.check_point import (
    ACK_TAG,
    BATCH_ACK_TAG,
    CHECK_POINT_TAG,
    CheckPoint,
    decode_ack,
    decode_check_point,
)
from cometmq.format.pop.names import REVIVE_GROUP, RetryFlag, flag_of, retry_topic
from cometmq.format.properties import FIRST_POP_TIME, ORIGIN_GROUP, TAGS, TIMER_DELIVER_MS, TIMER_OUT_MS
from cometmq.format.property_numbers import number_or
from cometmq.format.record import Record, decode
from cometmq.logs import get_logger
from cometmq.store.append import NewMessage, once_more
from cometmq.store.read.get_result import GetStatus
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import TopicConfig

AT_ONCE_MAX: Final = 32
"""Most records that are read, and check points that are revived, before other work of the loop continues."""
LOOK_AGAIN_MS: Final = 10_000
"""Longest wait, while check points are open, before the wall clock is read again: it may have been set."""
BEHIND_TIMER_MS: Final = 20
"""Shortest wait for the timer to deliver acknowledgements that are due."""
PAUSE_MS: Final = 1_000
"""Pause after a round that failed."""
RECONSUME_TIMES_MAX: Final = 2**31 - 1
"""The largest number that a record can hold."""

_log = get_logger(__name__)


class Revive:
    """Reads the revive topic, and stores messages again whose invisible time is over.

    Attributes:
        log: where check points are stored.
        topic: the revive topic.
    """

    def __init__(
        self,
        store: MessageStore,
        timed_messages: TimedMessages,
        topics: Topics,
        groups: Groups,
        offsets: Offsets,
        in_flight: InFlight,
        revive_log: ReviveLog,
        settings: PopSettings,
    ) -> None:
        self._store = store
        self._timed_messages = timed_messages
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        self._in_flight = in_flight
        self.log = revive_log
        self.topic = revive_log.topic
        self._clock = store.clock
        self._before: StoredBefore | None = StoredBefore(store, store.clock.now_ms())
        self._broker_name = revive_log.broker_name
        self._flag = RetryFlag.V2 if settings.enable_retry_topic_v2 else RetryFlag.V1
        self._has_separate_queues = settings.use_separate_retry_queue
        self._queues = {number: self._opened(number) for number in range(settings.revive_queue_num)}
        self._not_before_ms = 0
        self._stopped = False

    def wait_ms(self) -> int | None:
        """Return how long to wait before the next round, ms; None if until a message arrives."""
        pause_ms = self._not_before_ms - self._clock.monotonic_ms()
        if any(queue.next_offset != self._end(number) for number, queue in self._queues.items()):
            return max(pause_ms, 0)
        times = [time for queue in self._queues.values() if (time := queue.wake_ms()) is not None]
        if not times:
            return None
        wait_ms = min(min(times) - self._clock.now_ms(), LOOK_AGAIN_MS)
        delivered_ms = self._timed_messages.delivered_ms()
        if wait_ms <= 0 and (delivered_ms is None or delivered_ms < min(times)):
            wait_ms = max(self._timed_messages.wait_ms() or 0, BEHIND_TIMER_MS)
        return max(wait_ms, pause_ms, 0)

    async def round(self) -> None:
        """Read all revive queues to their ends, and revive what is complete; a failed round can be repeated.

        Raises OSError or CometMQError.
        """
        try:
            for number in self._queues:
                while not self._stopped and await self._go_on(number):
                    pass
            self._forget_before()
        except (OSError, CometMQError):
            self._pause()
            raise

    def _forget_before(self) -> None:
        """Forget what was stored before the start, once all is finished that was due then."""
        if (before := self._before) is not None:
            queues = self._queues.values()
            self._before = None if all(queue.is_done_until(before.began_ms) for queue in queues) else before

    def _pause(self) -> None:
        """Postpone the next round."""
        self._not_before_ms = self._clock.monotonic_ms() + PAUSE_MS

    def behind(self) -> dict[int, int]:
        """Return the number of messages that are not read yet, by revive queue."""
        return {
            number: max(self._end(number) - queue.next_offset, 0) for number, queue in self._queues.items()
        }

    def stop(self) -> None:
        """Revive nothing any more."""
        self._stopped = True

    def _opened(self, number: int) -> ReviveQueue:
        """Return a revive queue that is read behind its committed offset."""
        committed = self._offsets.committed(REVIVE_GROUP, self.topic, number)
        least, end = self._store.min_queue_offset(self.topic, number), self._end(number)
        return ReviveQueue(min(max(least, 0 if committed is None else committed + 1), end))

    def _end(self, number: int) -> int:
        return self._store.max_queue_offset(self.topic, number)

    async def _go_on(self, number: int) -> bool:
        """Revive some of what is complete, or read some of a queue; return whether there may be more."""
        await asyncio.sleep(0)  # others have their turn
        queue = self._queues[number]
        delivered_ms, end = self._timed_messages.delivered_ms(), self._end(number)
        if delivered_ms is not None:
            queue.mark_delivered(delivered_ms, end)
        if taken := queue.take(self._clock.now_ms(), AT_ONCE_MAX):
            await self._revive_all(taken, queue, number)
            more = True
        else:
            more = queue.next_offset != end and await self._read(number)
        self._commit(number)
        return more

    async def _revive_all(self, taken: list[OpenCheckPoint], queue: ReviveQueue, number: int) -> None:
        """Revive check points that were taken; those that fail stay open. Raises OSError or CometMQError."""
        while taken:
            try:
                await self._revive(taken[0], number)
            except (OSError, CometMQError):
                for one in taken:
                    queue.put_back(one)
                raise
            queue.finish(taken.pop(0))

    def _commit(self, number: int) -> None:
        committed = self._queues[number].committed
        known = self._offsets.committed(REVIVE_GROUP, self.topic, number)
        if committed >= 0 and committed != known:
            self._offsets.commit_with_log(REVIVE_GROUP, self.topic, number, committed)

    async def _read(self, number: int) -> bool:
        """Read some records of a revive queue; return False if none can be read now. Raises OSError."""
        queue = self._queues[number]
        offset = queue.next_offset
        found = await read(self._store, self._store.readings.get(self.topic, number, offset, AT_ONCE_MAX))
        if found.status is not GetStatus.FOUND:
            if found.next_offset < offset:  # the log lost its end, or the topic was recreated
                self._queues[number] = ReviveQueue(found.next_offset)
            elif found.next_offset > offset:  # retention removed some
                queue.mark_read(found.next_offset - 1, None)
            else:
                self._pause()
                return False
            return True
        for record in map(decode, found.records):
            await self._add(queue, record)
        queue.mark_read(found.next_offset - 1, None)
        return True

    async def _add(self, queue: ReviveQueue, record: Record) -> None:
        """Add a record to its queue, unless it was delivered before. Raises OSError."""
        named, before = properties.decode(record.properties), self._before
        due_ms = (
            number_or(TIMER_DELIVER_MS, named.get(TIMER_DELIVER_MS), 0) if TIMER_OUT_MS in named else None
        )
        is_known = (
            before is not None and due_ms is not None and await before.is_second_delivery(record, due_ms)
        )
        if not is_known:
            self._add_new(queue, record, named.get(TAGS), due_ms)
        queue.mark_read(record.queue_offset, due_ms)

    def _add_new(self, queue: ReviveQueue, record: Record, tag: str | None, due_ms: int | None) -> None:
        """Add a check point or an acknowledgement to its queue; anything else is logged and skipped."""
        try:
            if tag == CHECK_POINT_TAG:
                queue.add(decode_check_point(record.body, self._broker_name), record.queue_offset)
            elif tag in (ACK_TAG, BATCH_ACK_TAG):
                ack = decode_ack(record.body, self._broker_name)
                queue.acknowledge(ack, record.queue_offset, due_ms)
        except FormatError as error:
            _log.error("the record at %d of the revive topic is skipped: %s", record.physical_offset, error)

    async def _revive(self, check_point: OpenCheckPoint, number: int) -> None:
        """Store a check point's messages again. Raises OSError, StoreNotWritable; none is stored then."""
        point, left = check_point.point, check_point.left
        if self._groups.find(point.group) is not None and self._topics.find(point.topic) is not None:
            try:
                records = await self._records(point, sorted(left))
            except OSError as error:
                _log.error("popped messages of %s cannot be read, tried again later: %s", point.topic, error)
                now_ms = self._clock.now_ms()
                again = [put_again(point, offset, now_ms) for offset in sorted(left)]
                self.log.append([self.log.check_point(one, number) for one in again])
                self.log.revived(point, number)
                return
            await self._store_again(point, records)
        count = len(self.log.revived(point, number, left))
        self._in_flight.remove(point.group, point.topic, point.queue_id, point.pop_time_ms, count)

    async def _records(self, point: CheckPoint, offsets: Sequence[int]) -> list[Record]:
        """Read messages of a check point, without those that are gone. Raises OSError."""
        records: list[Record] = []
        is_recreated = self._store.deleted_before(point.topic) > 0
        left = list(offsets)
        while left:
            count = sum(offset == left[0] + place for place, offset in enumerate(left))  # without a gap
            reading = self._store.readings.get(point.topic, point.queue_id, left[0], count)
            found = await read(self._store, reading)
            for record in map(decode, found.records):
                is_other = is_recreated and record.store_time > point.pop_time_ms
                if record.queue_offset in left and not is_other:
                    records.append(record)
            end = max(found.next_offset, left[0] + 1)
            left = [offset for offset in left if offset >= end]
        return records

    async def _store_again(self, point: CheckPoint, records: Sequence[Record]) -> None:
        """Append messages to the retry topic, unless they are there. Raises OSError, StoreNotWritable."""
        if not records:
            return
        try:
            topic = await self._retry_topic(point)
        except IllegalName as error:
            _log.error("messages of %s cannot come back to group %s: %s", point.topic, point.group, error)
            return
        host = self.log.host
        queue_id = point.queue_id if self._has_separate_queues else 0
        again = [(record, _retry_message(record, point, topic.topic, queue_id, host)) for record in records]
        if (before := self._before) is not None:
            time_ms = point.revive_time_ms
            again = [one for one in again if not await before.has_come_back(*one, time_ms)]
        append_legal(self._store.append, [message for _, message in again], _log_illegal)

    async def _retry_topic(self, point: CheckPoint) -> TopicConfig:
        """Return the saved topic to which messages come back. Raises IllegalName, StoreNotWritable."""
        name, count = point.topic, 1
        if flag_of(name) is RetryFlag.NONE:
            popped = self._topics.find(name)
            name = retry_topic(name, point.group, self._flag)
            if self._has_separate_queues and popped is not None:
                count = max(popped.write_queue_count, 1)
        topic = self._topics.find(name)
        if topic is None:
            topic = self._topics.find_or_create(name, count)
            for queue_id in range(count):
                self._offsets.commit(point.group, name, queue_id, 0)
        if (creation := self._topics.creation(name)) is not None:
            await _saved(creation)
        return topic


def _log_illegal(message: NewMessage, error: MessageIllegal) -> None:
    _log.error("a popped message cannot come back to %s: %s", message.topic, error)


def _retry_message(record: Record, point: CheckPoint, topic: str, queue_id: int, host: bytes) -> NewMessage:
    """Return the message that is stored again for a record."""
    named = properties.decode(record.properties)
    if not record.reconsume_times or FIRST_POP_TIME not in named:
        named[FIRST_POP_TIME] = str(point.pop_time_ms)
    named[ORIGIN_GROUP] = point.group
    data = properties.encode(named)
    times = record.reconsume_times + (not point.is_suspended)
    return once_more(record)._replace(
        topic=topic,
        queue_id=queue_id,
        properties=data if len(data) <= properties.MAX_LENGTH else record.properties,
        born_host=host,
        store_host=host,
        reconsume_times=min(times, RECONSUME_TIMES_MAX),
    )


async def _saved(creation: Change[TopicConfig]) -> None:
    """Wait until the creation of a topic is on the disk. Raises StoreNotWritable."""
    done: asyncio.Future[StoreNotWritable | None] = asyncio.get_running_loop().create_future()
    creation.when_saved(done.set_result)
    if (error := await done) is not None:
        raise error
