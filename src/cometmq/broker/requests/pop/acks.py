"""ACK_MESSAGE and BATCH_ACK_MESSAGE: popped messages are consumed, and need not be delivered again.

An acknowledgement is stored, and counts when its check point is revived. It is refused if its message was
acknowledged before, hidden by another handle since, or revived: no such message waits. (RocketMQ confirms
it.) A check point that is not remembered (``SettledPoints.left``) is believed. An acknowledgement that the
store refuses is logged and confirmed, as RocketMQ does: its message will come again. Messages popped
in order have no check point: ``in_order.py`` counts their acknowledgements at once.

The usual acknowledgements of a turn of the loop become rows, and those of one check point are stored as one
record, RocketMQ's ``bAck``. What the leaf operation leaves, and rows that name no message, or what no pop has
given out, come as commands::

    frames ──► rows ──► joined by check point ──┐
       │        └► rare                         ├─► messages ──► appended ──► answered ◄── the disk has it
       └► commands ──► checked ─────────────────┘
                          └► refused

(RocketMQ: AckMessageProcessor.java.)
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import takewhile
from typing import Final, NamedTuple, TypeAlias

from cometmq.broker.appending import append_legal
from cometmq.broker.handlers import Handlers
from cometmq.broker.refused import Refused
from cometmq.broker.request_body import RequestBodies
from cometmq.broker.requests.pop.disk_answers import DiskAnswers
from cometmq.broker.requests.pop.in_order import OrderedPops
from cometmq.broker.requests.runs import ReadRun
from cometmq.broker.state.in_flight import InFlight
from cometmq.broker.state.pop.handles import (
    POINTS_KNOWN_MAX,
    HandlePoint,
    Handles,
    illegal_offset,
    none_waits,
    point_of,
)
from cometmq.broker.state.rates import Rates
from cometmq.broker.timed.revive_log import ReviveLog, ReviveMessage
from cometmq.errors import FormatError, MessageIllegal, StoreNotWritable
from cometmq.format.pop.bit_set import decode as decode_bits
from cometmq.format.pop.check_point import PopKey
from cometmq.format.pop.names import RetryFlag, retry_topic
from cometmq.format.pop.receipt import parse_receipt
from cometmq.kernels.acks.rows import AckRows
from cometmq.kernels.frames.rows import Frames, ReadFrames
from cometmq.kernels.ops import Ops
from cometmq.logs import get_logger
from cometmq.net.server import Session
from cometmq.store.queue.queue_ends import QueueEnds
from cometmq.wire.bodies import BatchAckEntry, BatchAckRequest
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import AckHeader, NoFields
from cometmq.wire.template import NumbersTemplate

_FLAGS: Final = {str(int(flag)): flag for flag in RetryFlag}
_DONE: Final = NumbersTemplate(None, ())
"""The response to an acknowledgement."""

_BLANK: Final = " "
_NOWHERE: Final = QueueEnds(0, 0)

_log = get_logger(__name__)


class _AckRequest(NamedTuple):
    """A checked request, and what is stored of it."""

    session: Session
    command: Command
    messages: list[ReviveMessage]


_Joined: TypeAlias = defaultdict[HandlePoint, set[int]]
"""The offsets of acknowledged messages by their check points."""


class Acks:
    """Stores acknowledgements: all of a turn of the loop by one append."""

    def __init__(
        self,
        log: ReviveLog,
        ordered: OrderedPops,
        handles: Handles,
        in_flight: InFlight,
        answers: DiskAnswers,
        bodies: RequestBodies,
        rates: Rates,
    ) -> None:
        self._log = log
        self._ordered = ordered
        self._handles = handles
        self._in_flight = in_flight
        self._answers = answers
        self._bodies = bodies
        self._rates = rates
        self._rows = AckRows()
        # memoryviews: Python takes a few bytes or numbers out of them faster than out of arrays
        self._texts = self._rows.texts.data
        self._answer_ends = self._rows.acks["answer_end"].data
        self._answer_room = self._rows.answers.data
        self._offsets = self._rows.acks["offset"]
        self._waiting: list[_AckRequest] = []
        self._is_refused = False

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.ACK_MESSAGE: self.handle,
            RequestCode.BATCH_ACK_MESSAGE: self.handle_batch,
        }

    def take(self, ops: Ops, frames: Frames, runs: Sequence[ReadRun]) -> None:
        """Store and answer the usual acknowledgements of a turn: see ``broker.requests.runs.Taker``."""
        joined: _Joined = defaultdict(set)
        joined_runs = [(read.session, run, self._join(ops, frames, run, joined)) for read, run in runs]
        self._store_joined(joined)
        for _, run, (count, _) in joined_runs:
            run.done = run.first + count
            run.commands_end = run.done if run.done == run.last else run.done + 1
        self._answers.send_all([(session, answers) for session, _, (_, answers) in joined_runs if answers])

    def _join(self, ops: Ops, frames: Frames, run: ReadFrames, joined: _Joined) -> tuple[int, bytes]:
        """Add the offsets of a run's rows to those of their check points.

        Returns how many are taken, and the responses to them.
        """
        if not (count := ops.acks.read(frames, run.first, run.last, self._rows)):
            return 0, b""
        points: list[tuple[int, ...]] = self._rows.points[:count].tolist()
        done = 0
        found = self._offsets[: points[-1][-1]].tolist()
        for queue_id, texts_at, group_end, topic_end, handle_end, acks_end in points:
            point, (low, high) = self._usual_point(queue_id, texts_at, group_end, topic_end, handle_end)
            if point is None:
                break
            offsets = found[done:acks_end]
            if not (low <= min(offsets) and max(offsets) <= high):
                offsets = _before_illegal(offsets, low, high)
            if len(new := self._new(point, offsets, joined)) < len(offsets):
                offsets = offsets[: _first_repeated(offsets, new)]
                new = set(offsets)
            if new:
                joined[point] |= new
            done += len(offsets)
            if done < acks_end:
                break
        self._rates.ack_rows[ops.body] += done
        return done, bytes(self._answer_room[: self._answer_ends[done - 1]]) if done else b""

    def _new(self, point: HandlePoint, offsets: Iterable[int], joined: _Joined) -> set[int]:
        """Return which messages of a check point are left of it, and not among the acknowledged ones."""
        new = set(offsets)
        if (left := self._log.settled.left(point)) is not None:
            new &= left
        return new - joined[point] if point in joined else new

    def _usual_point(
        self, queue_id: int, begin: int, group_end: int, topic_end: int, handle_end: int
    ) -> tuple[HandlePoint | None, QueueEnds]:
        """Return the check point whose texts begin and end there, and the ends of its queue.

        None for one that is unusual: refused, in order, or not revived here.
        """
        text = str(self._texts[begin:handle_end], "ascii")
        text = text[: text.rindex(_BLANK) + 1]
        try:
            point = _point_of_texts(text, group_end - begin, topic_end - begin, queue_id)
            ends = self._handles.ends_of(point.key.topic, queue_id)
        except (Refused, FormatError):
            return None, _NOWHERE
        is_usual = self._handles.has_revive_queue(point.revive_queue_id)
        return point if is_usual and self._log.can_wait(point.revive_time_ms) else None, ends

    def _store_joined(self, joined: _Joined) -> None:
        """Store the acknowledgements of some check points, one record for each."""
        messages: list[ReviveMessage] = []
        for point, offsets in joined.items():
            messages += self._messages(point, sorted(offsets))
        self._store(messages)

    def handle(self, session: Session, command: Command, header: AckHeader) -> Command | None:
        """ACK_MESSAGE. Raises MessageIllegal for a handle that no pop has given out."""
        self._rates.ack_commands += 1
        topic, group, queue_id, offset = header.topic, header.consumer_group, header.queue_id, header.offset
        ends = self._handles.ends_of(topic, queue_id)
        if not ends.low <= offset <= ends.high:
            raise illegal_offset(topic, queue_id, offset, ends)
        receipt = parse_receipt(header.extra_info)
        if self._handles.is_in_order(receipt.revive_queue_id):
            offsets = [offset] if offset < ends.high else []
            if not self._ordered.acknowledge(group, topic, queue_id, offsets, receipt.pop_time_ms):
                raise none_waits(topic, queue_id)
            return response(command)
        messages = self._messages(point_of(receipt, topic, group, queue_id), [offset])
        self._add(_AckRequest(session, command, messages))
        return None

    def handle_batch(self, session: Session, command: Command, _header: NoFields) -> None:
        """BATCH_ACK_MESSAGE: offsets without a message, and entries of unknown queues, are passed over.

        So are messages that wait no more, unless the batch has no others.
        """
        request = self._bodies.decode(BatchAckRequest, command) if command.body else None
        if request is None or not request.acks:
            raise Refused(ResponseCode.NO_MESSAGE, "the batch has no acknowledgements")
        self._bodies.check_count("acknowledgements", request.acks, command)
        broker_name = request.broker_name or ""
        messages = [one for entry in request.acks for one in self._of_entry(entry, broker_name)]
        self._add(_AckRequest(session, command, messages))

    def _of_entry(self, entry: BatchAckEntry, broker_name: str) -> list[ReviveMessage]:
        """Return what is stored of a batch's entry; nothing if it names no message. Raises FormatError."""
        flag = _FLAGS.get(entry.retry, RetryFlag.NONE)
        topic = retry_topic(entry.topic, entry.consumer_group, flag)
        try:
            low, high = self._handles.ends_of(topic, entry.queue_id)
        except Refused:
            return []
        offsets = [entry.start_offset + bit for bit in decode_bits(entry.bit_set)]
        offsets = [offset for offset in offsets if low <= offset <= high]
        if not offsets:
            return []
        if self._handles.is_in_order(entry.revive_queue_id):
            group, pop_time_ms = entry.consumer_group, entry.pop_time
            offsets = [offset for offset in offsets if offset < high]
            self._ordered.acknowledge(group, topic, entry.queue_id, offsets, pop_time_ms)
            return []
        key = PopKey(
            topic, entry.consumer_group, entry.queue_id, entry.start_offset, entry.pop_time, broker_name
        )
        point = HandlePoint(key, entry.pop_time + entry.invisible_time, entry.revive_queue_id)
        return self._messages(point, offsets)

    def _messages(self, point: HandlePoint, offsets: Sequence[int]) -> list[ReviveMessage]:
        """Return what is stored of an acknowledgement; nothing if its check point is revived nowhere."""
        if not self._handles.has_revive_queue(point.revive_queue_id):
            return []
        return [self._log.ack(point, offsets)]

    def _add(self, request: _AckRequest) -> None:
        """Store and answer a request at the end of the loop's turn."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._store_waiting)
        self._waiting.append(request)

    def _store_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        joined: _Joined = defaultdict(set)
        kept = [
            [one for each in request.messages if (one := self._part(each, joined))] for request in waiting
        ]
        self._store([message for messages in kept for message in messages])
        for (session, command, messages), stored in zip(waiting, kept, strict=True):
            answer: Command | bytes = _DONE.encode(command, (), 0)
            if messages and not stored:
                refused = none_waits(messages[0].point.key.topic, messages[0].point.key.queue_id)
                answer = response(command, refused.code, str(refused))
            self._answers.send(session, command, answer)

    def _part(self, message: ReviveMessage, joined: _Joined) -> ReviveMessage | None:
        """Return an acknowledgement without messages that wait no more; None if there are no others."""
        point, offsets = message.point, message.offsets
        if not (new := self._new(point, offsets, joined)):
            return None
        joined[point] |= new
        return message if len(new) == len(offsets) else self._log.ack(point, sorted(new))

    def _store(self, messages: list[ReviveMessage]) -> None:
        """Store acknowledgements, but for those that the store refuses."""
        if not messages:
            return
        try:
            append_legal(self._log.append, messages, _log_illegal)
        except StoreNotWritable as error:
            if not self._is_refused:
                _log.error("acknowledgements are not stored, their messages will come again: %s", error)
            self._is_refused = True
        else:
            self._is_refused = False
            for _, point, offsets in messages:
                key = point.key
                self._in_flight.remove(key.group, key.topic, key.queue_id, key.pop_time_ms, len(offsets))


@lru_cache(POINTS_KNOWN_MAX)
def _point_of_texts(text: str, topic_at: int, handle_at: int, queue_id: int) -> HandlePoint:
    """Return the check point of the texts of a row. Raises FormatError.

    Args:
        text: group, topic and handle; this without its last number, by which a check point's messages differ.
    """
    group, topic, handle = text[:topic_at], text[topic_at:handle_at], text[handle_at:]
    return point_of(parse_receipt(handle + "0"), topic, group, queue_id)


def _before_illegal(offsets: Iterable[int], low: int, high: int) -> list[int]:
    """Return the offsets before the first one that is not between the ends of a queue."""
    return list(takewhile(lambda offset: low <= offset <= high, offsets))


def _first_repeated(offsets: Sequence[int], new: AbstractSet[int]) -> int:
    """Return the place of the first offset that is not among the new ones, or not for the first time."""
    seen: set[int] = set()
    for place, offset in enumerate(offsets):
        if offset not in new or offset in seen:
            return place
        seen.add(offset)
    return len(offsets)


def _log_illegal(_: ReviveMessage, error: MessageIllegal) -> None:
    _log.warning("an acknowledgement is not stored: %.500s", error)
