"""Pulls as rows: read from frames or made of commands, judged, and asked of the store."""

from collections.abc import Container
from enum import Enum, auto
from typing import Final

from cometmq.broker.refused import code_of
from cometmq.broker.requests.pull_targets import NOBODY, PullTarget, PullTargets
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.rates import Rates
from cometmq.errors import CometMQError
from cometmq.kernels.pulls.pull_table import NO_TARGET
from cometmq.kernels.pulls.rows import (
    COMMIT_OFFSET,
    FRAME_AT,
    FRAME_END,
    IS_BINARY,
    MAX_BYTES,
    MAX_COUNT,
    NOTHING_TO_COMMIT,
    NUMBER,
    QUEUE_NUMBER,
    QUEUE_OFFSET,
    STATE,
    TARGET,
    PullOps,
    PullRows,
    PullState,
)
from cometmq.net.server import Session
from cometmq.net.turn import Read
from cometmq.store.read.bulk_reads import BYTES_MIN
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import FRAME_LENGTH_MAX, Command, SerializeType, response
from cometmq.wire.headers import PullResponseHeader, fields

BYTES_MAX: Final = FRAME_LENGTH_MAX - 65_536
"""The most a pull may ask for; RocketMQ has 128 MiB, which no client's frame could hold."""

_SERIALIZE_TYPES: Final = tuple(SerializeType)


class IfNothing(Enum):
    """What becomes of a pull for which nothing is found."""

    HOLD = auto()
    """It is held if its queue has nothing new: it has just come."""
    HOLD_ON = auto()
    """It is held again if what is new is not wanted: it has a filter that only a look at messages decides."""
    ANSWER = auto()
    """It is answered: its time is up, or something that it wanted has come."""


class PullRow:
    """A pull that was read and judged (a ``cluster.hold.HeldPull``).

    Attributes:
        target: what it may be given; ``NOBODY`` if it is refused.
        row: its numbers: see ``kernels.pulls.rows.FRAME_AT`` and the others.
        queue_offset: where to look: behind what was looked at before it was held.
        if_nothing: what becomes of it if nothing is found.
        queue: topic and id of its queue, of one that is held.
        tags_codes: the hashes of the wanted tags, None for any, of one that is held.
        deadline_ms: when it has been held long enough, on the monotonic clock; 0 unless it is held.
        answer: what it is answered, of one that is DECIDED.
    """

    # What differs of few is not set for each: that takes time.
    if_nothing = IfNothing.HOLD
    deadline_ms = 0
    answer: Command | None = None
    queue: tuple[str, int]
    tags_codes: Container[int] | None

    def __init__(self, session: Session, target: PullTarget, row: list[int]) -> None:
        self.session = session
        self.target = target
        self.row = row
        self.queue_offset = row[QUEUE_OFFSET]

    def wait_until(self, deadline_ms: int) -> None:
        """Be one that is held."""
        self.queue, self.tags_codes = self.target.queue, self.target.wanted.tags_codes
        self.deadline_ms = deadline_ms

    @property
    def command(self) -> Command:
        """The request, as far as its answer depends on it."""
        row = self.row
        return Command(self.target.code, row[NUMBER], serialize_type=_SERIALIZE_TYPES[row[IS_BINARY]])

    @property
    def max_count(self) -> int:
        """The most messages that it may be given."""
        return max(self.row[MAX_COUNT], 1)

    @property
    def max_bytes(self) -> int:
        """The most bytes of records that it may be given."""
        return min(max(self.row[MAX_BYTES], BYTES_MIN), BYTES_MAX)

    @property
    def owner(self) -> Session:
        """The connection that it came over."""
        return self.session


class PullAsks:
    """Reads and judges pulls, and asks the store for their messages."""

    def __init__(self, store: MessageStore, targets: PullTargets, offsets: Offsets, rates: Rates) -> None:
        self._store = store
        self._reads = store.readings.bulk
        self._targets = targets
        self._offsets = offsets
        self._rates = rates
        self._rows = PullRows()

    def read(self, ops: PullOps, read: Read, end: int, pulls: list[PullRow]) -> None:
        """Read the pulls that a read begins with, and ask the store for them."""
        targets = self._targets
        count, _, read.commands_end = ops.read(read.data, read.position, end, self._rows, targets.table)
        self._rates.pull_rows[ops.body] += count
        rows, by_number, known, at = self._rows.rows[:count], targets.by_number, targets.known, 0
        while at < count:
            end_known = at
            if not self._offsets.is_any_reset:
                end_known = self._reads.add_known(rows, at, known)
                pulls += [
                    PullRow(read.session, by_number[row[TARGET]], row) for row in rows[at:end_known].tolist()
                ]
            if end_known < count:
                row = rows[end_known].tolist()
                number = row[TARGET]
                target = NOBODY if number == NO_TARGET else by_number[number]
                pulls.append(pull := PullRow(read.session, target, row))
                if target is NOBODY:
                    self._judge(pull, read)
                else:
                    self.ask(pull)
                    known[number, QUEUE_NUMBER] = self._reads.number_of(*target.queue)
            at = end_known + 1

    def _judge(self, pull: PullRow, read: Read) -> None:
        """Judge a pull whose target is not known; refuse it, or ask the store for it."""
        row = pull.row
        frame = read.data[row[FRAME_AT] : row[FRAME_END]]
        try:
            if row[TARGET] == NO_TARGET:
                pull.target = self._targets.learn(frame, row, self._rows.keys)
            else:
                pull.target = self._targets.judge_frame(frame)
        except CometMQError as error:
            self._decide(pull, response(pull.command, code_of(error), str(error)))
        else:
            self.ask(pull)

    def _decide(self, pull: PullRow, answer: Command) -> None:
        """Have a pull answered without a look at the store; it commits nothing."""
        pull.answer = answer
        pull.row[STATE], pull.row[COMMIT_OFFSET] = PullState.DECIDED, NOTHING_TO_COMMIT

    def ask(self, pull: PullRow) -> None:
        """Ask the store for a pull's messages, unless it is to be told of a reset, or a reading is needed."""
        row, target, session = pull.row, pull.target, pull.session
        if self._offsets.is_any_reset and (reset := self.reset_of(pull)) is not None:
            self._decide(pull, reset)
        elif target.is_rare or session.congested or session.closed:
            row[STATE] = PullState.RARE
        else:
            size = row[MAX_BYTES]
            row[STATE] = self._reads.add(
                target.queue,
                pull.queue_offset,
                max(row[MAX_COUNT], 1),
                size if BYTES_MIN <= size <= BYTES_MAX else pull.max_bytes,
                target.tags_codes,
                row[NUMBER],
                row[IS_BINARY],
            )

    def reset_of(self, pull: PullRow) -> Command | None:
        """Return the answer that tells a pull where to go on, if its offset was reset; once for each reset.

        Also if it begins there: what its client has pulled and not handled yet does not count any more.
        """
        topic, queue_id = pull.target.queue
        offset = self._offsets.take_reset(pull.target.header.consumer_group, topic, queue_id)
        if offset is None:
            return None
        low, high = (
            self._store.min_queue_offset(topic, queue_id),
            self._store.max_queue_offset(topic, queue_id),
        )
        answer = fields(PullResponseHeader(0, offset, low, high))
        return response(pull.command, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", answer)

    def judge_anew(self, pull: PullRow) -> bool:
        """Judge a pull that was held, as something has changed; refuse it if that is the word now."""
        try:
            pull.target = self._targets.judge_anew(pull.target)
        except CometMQError as error:
            pull.session.send(response(pull.command, code_of(error), str(error)))
            return False
        pull.queue_offset = pull.row[QUEUE_OFFSET]  # what was not wanted before may be now
        return True
