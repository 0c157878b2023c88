"""A pop's visit of its queues: read, store check points, hand out.

One pop is one reading, so it may wait for the disk. All is done in the loop's thread::

    a queue ─► begins where? ─► read ─► collected ─┐
    the next queue … ────────────────► collected ──┴► check points stored ─► offsets moved, handed out
                         │
                         └► not in memory: what is collected is handed out first, then the queue is *busy*
                            until the disk has answered; other pops skip it

So nothing else runs between a read and the move of the offset, and no two pops hand out the same message.
If the store refuses the check points, nothing is handed out and no offset moves. What was read from the disk
is dropped if the offset, a reset or a deletion came between. A pop in order stores no check points and moves
no offset, but passes over blocked queues (``in_order.py``).
(RocketMQ: PopMessageProcessor.popMsgFromQueue.)
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import Any, Final

from cometmq.broker.requests.pop.in_order import OrderedPops, PopInOrder
from cometmq.broker.requests.pop.pop_offsets import PopOffsets
from cometmq.broker.requests.pop.popped import Popped, ReadQueue, queue_offsets
from cometmq.broker.requests.pop.sources import PopSources, Source
from cometmq.broker.settings_by_subject import PopSettings
from cometmq.broker.state.in_flight import InFlight
from cometmq.broker.state.offsets import SEPARATOR, key_of
from cometmq.broker.state.subscriptions import PullFilter
from cometmq.broker.timed.revive_log import ReviveLog, ReviveMessage
from cometmq.errors import CometMQError
from cometmq.format.pop.check_point import CONSECUTIVE, CheckPoint
from cometmq.format.pop.names import ORDER_REVIVE_QUEUE_ID
from cometmq.store.read.get_result import GetResult, GetStatus
from cometmq.store.reading import PAUSE, Reading
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import TopicConfig
from cometmq.wire.frame import FRAME_LENGTH_MAX
from cometmq.wire.headers import PopHeader

BYTES_MAX: Final = FRAME_LENGTH_MAX - 1_048_576
"""Most bytes of records in an answer; the rest of the frame is for its header, and handles in records."""
RECORD_EXTRA: Final = 40_000
"""Most bytes that a record has besides its body."""

_ELSEWHERE: Final = frozenset(
    {GetStatus.OFFSET_TOO_SMALL, GetStatus.OFFSET_OVERFLOW_BADLY, GetStatus.OFFSET_FOUND_NULL}
)
"""The offset moves to where messages are, and is read again."""
_PASSED_OVER: Final = frozenset(
    {
        GetStatus.NO_MATCHED_MESSAGE,
        GetStatus.OFFSET_FOUND_NULL,
        GetStatus.MESSAGE_WAS_REMOVING,
        GetStatus.NO_MATCHED_LOGIC_QUEUE,
    }
)
"""Nothing is found, but the offset moves."""

Place = tuple[str, int]
"""The key of group and topic, and the queue id."""


class Visits:
    """Carries out pops.

    Args:
        on_free: called with group, topic and queue id when a queue that others had skipped is no longer busy.
    """

    def __init__(
        self,
        store: MessageStore,
        sources: PopSources,
        offsets: PopOffsets,
        ordered: OrderedPops,
        in_flight: InFlight,
        log: ReviveLog,
        settings: PopSettings,
        on_free: Callable[[str, str, int], None],
    ) -> None:
        self._store = store
        self._sources = sources
        self._offsets = offsets
        self._ordered = ordered
        self._in_flight = in_flight
        self._log = log
        self._record_max = store.settings.max_message_size + RECORD_EXTRA
        self._in_flight_max = (
            settings.pop_inflight_message_threshold if settings.enable_pop_message_threshold else None
        )
        self._as_popped_topic = not settings.pop_response_return_actual_retry_topic
        self._broker_name = log.broker_name
        self._revive_queues = cycle(range(settings.revive_queue_num))
        self._busy: set[Place] = set()
        self._skipped: set[Place] = set()
        self._on_free = on_free

    def begin(self, topic: TopicConfig, header: PopHeader, now_ms: int) -> Popped:
        """Return a pop of a topic, at a time in ms since the epoch, that has found nothing yet.

        Raises Refused.
        """
        group, queue_id, in_order = header.consumer_group, header.queue_id, None
        if header.order:
            in_order = self._ordered.begin(header.attempt_id)
            sources = self._sources.of_pop_in_order(topic, queue_id)
        else:
            sources = self._sources.of_pop(topic, group, queue_id)
        popped = Popped(
            topic.topic,
            group,
            sources,
            broker_name=self._broker_name,
            pop_time_ms=now_ms,
            invisible_ms=header.invisible_time,
            revive_queue_id=next(self._revive_queues) if in_order is None else ORDER_REVIVE_QUEUE_ID,
        )
        popped.in_order = in_order
        return popped

    def pop(
        self, popped: Popped, header: PopHeader, wanted: PullFilter, may_wait: Callable[[], bool]
    ) -> Reading[Popped]:
        """Visit the queues of a pop until messages are found or there are none.

        Args:
            may_wait: returns whether the pop is held if nothing is found: then all that the filter rejects is
                passed over, since it wakes nobody any more.
        """
        while True:
            popped.waited = popped.passed_over = False
            popped.rest = 0
            for source in popped.sources:
                key = key_of(popped.group, source.topic)
                is_usual = popped.in_order is None and not self._offsets.is_any_reset
                for queue_id, known in self._with_messages(source, key):
                    is_fresh = not popped.waited  # else others may have moved it meanwhile
                    offset, end = known if is_fresh else self._ends(source.topic, key, (queue_id,))[0]
                    if self._busy and (key, queue_id) in self._busy:
                        self._skipped.add((key, queue_id))
                        popped.rest += end - (offset or 0)
                        continue
                    where = source, key, queue_id
                    if not (
                        is_usual
                        and is_fresh
                        and offset is not None
                        and self._collect_at_once(popped, header, wanted, where, offset, end)
                    ):
                        yield from self._visit(popped, header, wanted, where, offset, end)
            self._hand_out(popped)
            is_over = not popped.waited and not (popped.passed_over and may_wait())
            if popped.count or popped.refusal is not None or is_over:
                return popped
            if not popped.waited:
                yield PAUSE

    def _ends(self, topic: str, key: str, queue_ids: Sequence[int]) -> list[tuple[int | None, int]]:
        """Return of each queue where the next pop begins, None if that is not known, and the queue's end."""
        ends = self._store.max_queue_offsets(topic, queue_ids)
        return list(zip(self._offsets.next_offsets(key, queue_ids), ends, strict=True))

    def _with_messages(self, source: Source, key: str) -> list[tuple[int, tuple[int | None, int]]]:
        """Return the ids of the queues that may have messages, with what ``_ends`` has of each."""
        ids, is_any_reset = source.queue_ids, self._offsets.is_any_reset
        known = zip(ids, self._ends(source.topic, key, ids), strict=True)
        return [(queue_id, one) for queue_id, one in known if one[0] != one[1] or is_any_reset]

    def _collect_at_once(
        self,
        popped: Popped,
        header: PopHeader,
        wanted: PullFilter,
        where: tuple[Source, str, int],
        offset: int,
        end: int,
    ) -> bool:
        """Collect the messages of a queue, as ``_visit`` does, if all that takes is at hand: nearly always.

        Returns whether that is done.
        """
        topic, queue_id = where[0].topic, where[2]
        if popped.count >= header.max_msg_nums or self._gets_no_more(popped, header, topic, queue_id):
            popped.rest += end - offset
            return True
        if wanted.record_filter is not None:
            return False
        max_count, max_bytes = header.max_msg_nums - popped.count, BYTES_MAX - popped.size
        get_at_once = self._store.readings.get_at_once
        found = get_at_once(topic, queue_id, offset, max_count, max_bytes, wanted.tags_codes)
        if found is None or (found.status is not GetStatus.FOUND and found.status in _ELSEWHERE):
            return False
        self._collect(popped, where, offset, found)
        return True

    def _visit(
        self,
        popped: Popped,
        header: PopHeader,
        wanted: PullFilter,
        where: tuple[Source, str, int],
        offset: int | None,
        end: int,
    ) -> Reading[None]:
        """Read messages of one queue, whatever it takes."""
        source, key, queue_id = where
        offsets = self._offsets
        reset = offsets.take_reset(key, queue_id)
        if reset is not None:
            offset = reset
            self._ordered.forget(key, queue_id)
        if offset is None:
            begin = offsets.begin(key, queue_id, source.retry_flag, header.init_mode)
            offset = yield from self._tracked(popped, (key, queue_id), begin)
            if popped.paused:
                return  # it is visited again
            if offset == end:
                return
        in_order = popped.in_order
        if in_order is not None and self._ordered.is_blocked(in_order, key, queue_id, end):
            return
        if self._gets_no_more(popped, header, source.topic, queue_id):
            popped.rest += end - offset
            return
        result = yield from self._read(popped, header, wanted, where, offset)
        if result is not None and result.status in _ELSEWHERE:
            offset = result.next_offset
            offsets.move(key, queue_id, offset)
            result = yield from self._read(popped, header, wanted, where, offset)
        if result is not None:
            self._collect(popped, where, offset, result)

    def _read(
        self,
        popped: Popped,
        header: PopHeader,
        wanted: PullFilter,
        where: tuple[Source, str, int],
        offset: int,
    ) -> Reading[GetResult | None]:
        """Read a queue at an offset; return None if that has become wrong while the disk was waited for."""
        source, key, queue_id = where
        deleted_before = self._store.deleted_before(source.topic)
        reading = self._store.readings.get(
            source.topic,
            queue_id,
            offset,
            header.max_msg_nums - popped.count,
            BYTES_MAX - popped.size,
            wanted.tags_codes,
            wanted.record_filter,
        )
        result: GetResult = yield from self._tracked(popped, (key, queue_id), reading)
        if popped.paused and (
            self._offsets.has_reset(key, queue_id)
            or self._offsets.next_offset(key, queue_id) != offset
            or self._store.deleted_before(source.topic) != deleted_before
        ):
            return None
        return result

    def _tracked(self, popped: Popped, place: Place, reading: Reading[Any]) -> Reading[Any]:
        """Run a reading; its queue is busy while it waits for the disk."""
        popped.paused, fetched = False, None
        while True:
            try:
                step = reading.send(fetched)
            except StopIteration as stop:
                return stop.value
            if (fetched := step.ready()) is not None:
                continue
            popped.paused = popped.waited = True
            self._hand_out(popped)
            popped.copy_records()
            self._busy.add(place)
            try:
                fetched = yield step
            finally:
                self._free(place)

    def _free(self, place: Place) -> None:
        """Mark a queue as no longer busy: the disk has answered, or the pop is abandoned."""
        self._busy.discard(place)
        if place in self._skipped:
            self._skipped.discard(place)
            topic, _, group = place[0].partition(SEPARATOR)
            self._on_free(group, topic, place[1])

    def _gets_no_more(self, popped: Popped, header: PopHeader, topic: str, queue_id: int) -> bool:
        """Return whether a pop gets no messages of a queue: it is full, or the group holds too many."""
        count = popped.count
        if count >= header.max_msg_nums or (count > 0 and popped.size + self._record_max > BYTES_MAX):
            return True
        in_flight_max = self._in_flight_max
        return in_flight_max is not None and (
            self._in_flight.count(popped.group, topic, queue_id) >= in_flight_max
        )

    def _collect(
        self, popped: Popped, where: tuple[Source, str, int], offset: int, result: GetResult
    ) -> None:
        """Collect the messages of a read; if there are none, move the offset past those that do not match."""
        source, key, queue_id = where
        rest = result.max_offset - result.next_offset
        if result.status is GetStatus.FOUND:
            sizes = result.sizes
            data = result.runs[0] if len(result.runs) == 1 else b"".join(result.runs)
            if result.next_offset - offset == len(sizes):
                found = tuple(range(offset, result.next_offset))
            else:
                found = queue_offsets(data, sizes)
            read = source, key, queue_id, offset, found, result.next_offset, data, sizes
            popped.unstored.append(tuple.__new__(ReadQueue, read))  # in half the time of ReadQueue(…)
            popped.count += len(sizes)
            popped.size += len(data)
        elif result.status in _PASSED_OVER:
            self._offsets.move(key, queue_id, result.next_offset)
            popped.passed_over |= rest > 0
        popped.rest += max(rest, 0)

    def _hand_out(self, popped: Popped) -> None:
        """Store the check points of what was read, and hand it out; or drop it if the store refuses."""
        read, popped.unstored = popped.unstored, []
        if not read:
            return
        if popped.in_order is not None:
            self._block(popped, popped.in_order, read)
        elif not self._store_check_points(popped, read):
            return
        for one in read:
            popped.add(one, as_popped_topic=self._as_popped_topic)

    def _block(self, popped: Popped, in_order: PopInOrder, read: Iterable[ReadQueue]) -> None:
        """Block the queues of what was read in order; the offsets stay."""
        for one in read:
            self._ordered.record(
                in_order, one.key, one.queue_id, one.offsets, popped.pop_time_ms, popped.invisible_ms
            )

    def _store_check_points(self, popped: Popped, read: Sequence[ReadQueue]) -> bool:
        """Store the check points of what was read, and move the offsets; return whether that succeeded."""
        try:
            self._log.append([self._check_point(popped, one) for one in read])
        except CometMQError as error:
            popped.refuse(read, error)
            return False
        for one in read:
            self._offsets.move(one.key, one.queue_id, one.next_offset)
            self._in_flight.add(one.key, one.queue_id, len(one.offsets))
        return True

    def _check_point(self, popped: Popped, read: ReadQueue) -> ReviveMessage:
        begin, offsets = read.begin_offset, read.offsets
        is_whole = offsets[-1] - begin < len(offsets)  # nearly always
        check_point = CheckPoint(
            read.source.topic,
            popped.group,
            read.queue_id,
            begin,
            popped.pop_time_ms,
            popped.invisible_ms,
            CONSECUTIVE[len(offsets)] if is_whole else tuple([offset - begin for offset in offsets]),
            popped.broker_name,
        )
        return self._log.check_point(check_point, popped.revive_queue_id)
