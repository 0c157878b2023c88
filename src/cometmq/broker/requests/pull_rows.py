"""Pulls as rows: read from frames or built from commands, checked, and added to the store's bulk read."""

from collections.abc import Container, Sequence
from enum import Enum, auto
from typing import Final

from cometmq.broker.refused import code_of
from cometmq.broker.requests.pull_targets import UNCACHED, PullTarget, PullTargets, unchecked
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.rates import Rates
from cometmq.broker.state.subscriptions import NotLatest
from cometmq.errors import CometMQError
from cometmq.kernels.frames.rows import Frames
from cometmq.kernels.ops import Ops
from cometmq.kernels.pulls.rows import (
    NOTHING_TO_COMMIT,
    PULLS_MAX,
    QUEUE_NUMBER,
    TARGET,
    Pull,
    PullRows,
    PullState,
)
from cometmq.kernels.text.key_table import NO_ROW
from cometmq.net.server import Session
from cometmq.store.read.bulk_reads import BYTES_MIN
from cometmq.store.read.get_result import GetStatus
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import FRAME_LENGTH_MAX, Command, SerializeType, response
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


_HOLD: Final = IfNothing.HOLD


class PullRow:
    """A pull that was read and checked (a ``cluster.hold.HeldPull``).

    Attributes:
        target: its queue and filter; ``UNCACHED`` if it is refused.
        frame, opaque, is_binary, sys_flag, suspend_ms: its numbers: see ``kernels.pulls.rows.Pull``.
        asked_offset: the queue offset that it asks for.
        wanted_count, wanted_bytes: how much it asks for.
        state: what has become of it.
        commit_offset: the offset to commit, NOTHING_TO_COMMIT for none.
        queue_offset: where to read: after the messages that were read before it was held.
        if_nothing: the next step if no messages are found.
        queue: topic and id of its queue; set when it is held.
        tags_codes: the hashes of the accepted tags, None for any; set when it is held.
        deadline_ms: the end of the hold, on the monotonic clock; 0 unless it is held.
        answer: the response to it if its state is DECIDED; None before ``PullReader.decide_reset``.
        is_ahead: whether it is of a newer version of its group's subscription than is known.
    """

    __slots__ = (
        *("answer", "asked_offset", "commit_offset", "deadline_ms", "frame", "if_nothing", "is_ahead"),
        *("is_binary", "opaque", "queue", "queue_offset", "session", "state", "suspend_ms", "sys_flag"),
        *("tags_codes", "target", "wanted_bytes", "wanted_count"),
    )

    answer: Command | None
    queue: tuple[str, int]
    tags_codes: Container[int] | None

    def __init__(self, session: Session, target: PullTarget, row: Sequence[int]) -> None:
        """Build a pull from the numbers of a ``kernels.pulls.rows.Pull``."""
        self.session = session
        self.target = target
        (
            self.frame,
            self.opaque,
            self.is_binary,
            self.asked_offset,
            self.wanted_count,
            self.wanted_bytes,
            self.sys_flag,
            self.commit_offset,
            self.suspend_ms,
            self.state,
            _,  # the number of its target, and where the key is
            _,
            _,
        ) = row
        self.queue_offset = self.asked_offset
        self.if_nothing = _HOLD
        self.deadline_ms = 0
        self.answer = None
        self.is_ahead = False

    def wait_until(self, deadline_ms: int) -> None:
        """Set the attributes of a held pull."""
        self.queue, self.tags_codes = self.target.queue, self.target.pull_filter.tags_codes
        self.deadline_ms = deadline_ms

    @property
    def command(self) -> Command:
        """The request, with the fields that its response depends on."""
        return Command(self.target.code, self.opaque, serialize_type=_SERIALIZE_TYPES[self.is_binary])

    @property
    def max_count(self) -> int:
        """Most messages in its response."""
        return max(self.wanted_count, 1)

    @property
    def max_bytes(self) -> int:
        """Most bytes of records in its response."""
        return min(max(self.wanted_bytes, BYTES_MIN), BYTES_MAX)

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

    def read(
        self, ops: Ops, frames: Frames, session: Session, first: int, last: int, pulls: list[PullRow]
    ) -> int:
        """Read the pulls of one session's frames, and add them to the bulk read; return how many."""
        targets, table = self._targets, self._targets.table
        last = min(last, first + PULLS_MAX)
        count = ops.pulls.read(frames, first, last, self._rows, table)
        self._rates.pull_rows[ops.body] += count
        rows, by_number, at = self._rows, targets.by_number, 0
        while at < count:
            end_known = at
            if not self._offsets.is_any_reset:
                end_known = self._reads.add_known(rows, at, count, table)
                numbers = rows.numbers[at:end_known].tolist()
                pulls += [PullRow(session, by_number[row[TARGET]], row) for row in numbers]
            if end_known < count:
                row = Pull._make(rows.array[end_known].item())
                number = row.target
                target = UNCACHED if number == NO_ROW else by_number[number]
                pulls.append(pull := PullRow(session, target, row))
                if target is UNCACHED:
                    self._check(pull, row, frames)
                else:
                    self.add(pull)
                    table.rows[number, QUEUE_NUMBER] = self._reads.number_of(*target.queue)
            at = end_known + 1
        return count

    def _check(self, pull: PullRow, row: Pull, frames: Frames) -> None:
        """Check a pull whose target is not cached; refuse it, or add it to the bulk read."""
        command = frames.request(row.frame)
        try:
            if row.target == NO_ROW:
                pull.target = self._targets.check_new(command, row, self._rows.keys)
            else:
                pull.target = self._targets.check_request(command)
        except NotLatest as error:
            pull.target, pull.is_ahead = unchecked(command), True
            self._decide(pull, response(pull.command, error.code, error.remark))
        except CometMQError as error:
            self._decide(pull, response(pull.command, code_of(error), str(error)))
        else:
            self.add(pull)

    def _decide(self, pull: PullRow, answer: Command) -> None:
        """Set the response to a pull that neither reads the store nor commits."""
        pull.answer = answer
        pull.state, pull.commit_offset = PullState.DECIDED, NOTHING_TO_COMMIT

    def add(self, pull: PullRow) -> None:
        """Add a pull to the store's bulk read, unless an offset reset answers it or it needs a reading."""
        target, session = pull.target, pull.session
        if self._offsets.has_reset(target.key, target.queue[1]):
            pull.state = PullState.DECIDED  # see ``decide_reset``
        elif target.is_rare or session.congested or session.closed:
            pull.state = PullState.RARE
        else:
            size = pull.wanted_bytes
            pull.state = self._reads.add(
                target.queue,
                pull.queue_offset,
                pull.max_count,
                size if BYTES_MIN <= size <= BYTES_MAX else pull.max_bytes,
                target.tags_codes,
                pull.opaque,
                pull.is_binary,
            )

    def decide_reset(self, pull: PullRow) -> None:
        """Decide a pull by the reset that ``add`` saw; if one before it was told, it needs a reading."""
        reset = self.reset_answer(pull)
        if reset is None:
            pull.state = PullState.RARE
        else:
            self._decide(pull, reset)

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

    def check_again(self, pull: PullRow) -> bool:
        """Check a held pull by the present state; send the error and return False if it is refused now."""
        try:
            pull.target = self._targets.check_again(pull.target)
        except CometMQError as error:
            pull.session.send(response(pull.command, code_of(error), str(error)))
            return False
        pull.queue_offset = pull.asked_offset  # messages that did not match before may match now
        return True
