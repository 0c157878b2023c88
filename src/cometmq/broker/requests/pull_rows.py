"""Pulls as rows: read from frames or built from commands, checked, and added to the store's bulk read."""

from collections.abc import Container
from enum import Enum, auto
from typing import Final

from cometmq.broker.refused import code_of
from cometmq.broker.requests.pull_targets import UNCACHED, PullTarget, PullTargets, unchecked
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.rates import Rates
from cometmq.broker.state.subscriptions import NotLatest
from cometmq.errors import CometMQError
from cometmq.kernels.pulls.plain import row_of
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
from cometmq.store.read.get_result import GetStatus
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import FRAME_LENGTH_MAX, Command, SerializeType, decode, response
from cometmq.wire.headers import PullResponseHeader, fields
from cometmq.wire.template import NumbersTemplate

BYTES_MAX: Final = FRAME_LENGTH_MAX - 65_536
"""Most bytes of records for one pull; RocketMQ allows 128 MiB, which no client's frame could hold."""

FOUND: Final = NumbersTemplate(
    GetStatus.FOUND.name, ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset")
)
"""The response header of pulls that find messages."""

_SERIALIZE_TYPES: Final = tuple(SerializeType)


class IfNothing(Enum):
    """The next step of a pull for which no messages are found."""

    HOLD = auto()
    """Hold it if its queue has nothing new: it has just come."""
    HOLD_ON = auto()
    """Hold it again if no new message matches: its filter reads properties."""
    ANSWER = auto()
    """Answer it: its deadline has passed, or a matching message had arrived."""


class PullRow:
    """A pull that was read and checked (a ``cluster.hold.HeldPull``).

    Attributes:
        target: its queue and filter; ``UNCACHED`` if it is refused.
        row: its numbers: see ``kernels.pulls.rows.FRAME_AT`` and the others.
        queue_offset: where to read: after the messages that were read before it was held.
        if_nothing: the next step if no messages are found.
        queue: topic and id of its queue; set when it is held.
        tags_codes: the hashes of the accepted tags, None for any; set when it is held.
        deadline_ms: the end of the hold, on the monotonic clock; 0 unless it is held.
        answer: the response to it if its state is DECIDED.
        is_ahead: whether it is of a newer version of its group's subscription than is known.
    """

    # Class attributes: to set these for each pull would take time, and few differ.
    if_nothing = IfNothing.HOLD
    deadline_ms = 0
    answer: Command | None = None
    is_ahead = False
    queue: tuple[str, int]
    tags_codes: Container[int] | None

    def __init__(self, session: Session, target: PullTarget, row: list[int]) -> None:
        self.session = session
        self.target = target
        self.row = row
        self.queue_offset = row[QUEUE_OFFSET]

    def wait_until(self, deadline_ms: int) -> None:
        """Set the attributes of a held pull."""
        self.queue, self.tags_codes = self.target.queue, self.target.pull_filter.tags_codes
        self.deadline_ms = deadline_ms

    @property
    def command(self) -> Command:
        """The request, with the fields that its response depends on."""
        row = self.row
        return Command(self.target.code, row[NUMBER], serialize_type=_SERIALIZE_TYPES[row[IS_BINARY]])

    @property
    def max_count(self) -> int:
        """Most messages in its response."""
        return max(self.row[MAX_COUNT], 1)

    @property
    def max_bytes(self) -> int:
        """Most bytes of records in its response."""
        return min(max(self.row[MAX_BYTES], BYTES_MIN), BYTES_MAX)

    @property
    def owner(self) -> Session:
        """The connection that it came over."""
        return self.session


class PullReader:
    """Reads and checks pulls, and adds them to the store's bulk read."""

    def __init__(self, store: MessageStore, targets: PullTargets, offsets: Offsets, rates: Rates) -> None:
        self._store = store
        self._reads = store.readings.bulk
        self._targets = targets
        self._offsets = offsets
        self._rates = rates
        self._rows = PullRows()

    def read(self, ops: PullOps, read: Read, end: int, pulls: list[PullRow]) -> None:
        """Read the pulls at the ``position`` of a read up to ``end``, and add them to the bulk read."""
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
                target = UNCACHED if number == NO_TARGET else by_number[number]
                pulls.append(pull := PullRow(read.session, target, row))
                if target is UNCACHED:
                    self._check(pull, read)
                else:
                    self.add(pull)
                    known[number, QUEUE_NUMBER] = self._reads.number_of(*target.queue)
            at = end_known + 1

    def _check(self, pull: PullRow, read: Read) -> None:
        """Check a pull whose target is not cached; refuse it, or add it to the bulk read."""
        row = pull.row
        frame = read.data[row[FRAME_AT] : row[FRAME_END]]
        try:
            if row[TARGET] == NO_TARGET:
                pull.target = self._targets.check_new(frame, row, self._rows.keys)
            else:
                pull.target = self._targets.check_frame(frame)
        except NotLatest as error:
            pull.target, pull.is_ahead = unchecked(decode(frame)), True
            self._decide(pull, response(pull.command, error.code, error.remark))
        except CometMQError as error:
            self._decide(pull, response(pull.command, code_of(error), str(error)))
        else:
            self.add(pull)

    def _decide(self, pull: PullRow, answer: Command) -> None:
        """Set the response to a pull that neither reads the store nor commits."""
        pull.answer = answer
        pull.row[STATE], pull.row[COMMIT_OFFSET] = PullState.DECIDED, NOTHING_TO_COMMIT

    def add(self, pull: PullRow) -> None:
        """Add a pull to the store's bulk read, unless an offset reset answers it or it needs a reading."""
        row, target, session = pull.row, pull.target, pull.session
        if self._offsets.is_any_reset and (reset := self.reset_answer(pull)) is not None:
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

    def reset_answer(self, pull: PullRow) -> Command | None:
        """Return the response with the new offset if it was reset, once for each reset; else None.

        Also if the pull begins there: its client must drop the messages that it has pulled but not handled.
        """
        topic, queue_id = pull.target.queue
        offset = self._offsets.pop_reset(pull.target.header.consumer_group, topic, queue_id)
        if offset is None:
            return None
        low, high = self._store.ends_of(topic, queue_id)
        answer = fields(PullResponseHeader(0, offset, low, high))
        return response(pull.command, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", answer)

    def renew(self, pull: PullRow) -> bool:
        """Restore a pull that was put off, and check it again; return False if it is refused."""
        pull.row = row_of(pull.command, pull.target.header)
        pull.answer, pull.is_ahead = None, False
        return self.check_again(pull)

    def check_again(self, pull: PullRow) -> bool:
        """Check a held pull by the present state; send the error and return False if it is refused now."""
        try:
            pull.target = self._targets.check_again(pull.target)
        except CometMQError as error:
            pull.session.send(response(pull.command, code_of(error), str(error)))
            return False
        pull.queue_offset = pull.row[QUEUE_OFFSET]  # messages that did not match before may match now
        return True
