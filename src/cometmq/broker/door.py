"""The door: what the broker does with the bytes of a turn.

The frames of all connections are read once, into rows. Where requests are checked, they are checked on these
rows, and on these rows they are executed. The frames of one kind that a read goes on with, its run, are taken
with those of other reads; what is rare becomes a command here, and nowhere else::

    reads ──► rows ──► runs ──► checked ──► sends | pulls | queries | acknowledgements ──► answered
                        │          └► refused                  │ rare
                        └────────► commands ◄──────────────────┘
                                      └► net.guarded, broker.handlers

A frame is a command's if its row says so, or if who takes it leaves it. After each round the reads go on
behind what was handled, so the requests of a connection are executed in their order.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from cometmq import kernels
from cometmq.access.guard import Guard
from cometmq.broker.requests.runs import ReadRun, Taker
from cometmq.kernels.frames.fields import FrameKind
from cometmq.kernels.frames.rows import READS_MAX, Frames, ReadFrames
from cometmq.net.boundary import attempt
from cometmq.net.guarded import recognise, refuse
from cometmq.net.session import Read, Session
from cometmq.wire.acl import ACCESS_KEY
from cometmq.wire.frame import Command

JOINED_MAX: Final = 1 << 20
"""Most bytes of several reads that are copied, to be read together."""


class Door:
    """Hands a turn's frames to those who take them (a ``net.turn.BulkHandler``).

    Attributes:
        takers: who takes the frames of each kind.
    """

    def __init__(self, takers: Mapping[FrameKind, Taker], guard: Guard | None = None) -> None:
        self.takers = takers
        self._in_order = [(1 << kind, kind, taker) for kind, taker in sorted(takers.items())]
        self._frames = Frames(are_signed=guard is not None)
        self._check = None if guard is None else RowCheck(guard, self._frames)

    def guarded_by(self, guard: Guard) -> "Door":
        """Return a door to the same takers whose requests are checked by a guard."""
        return Door(self.takers, guard)

    def take(self, reads: Sequence[Read]) -> None:
        """Handle all frames of a turn: see ``net.turn.BulkHandler``."""
        runs = self._frames.runs
        while len(reads) > 1:
            some = _joined(reads)
            data = [read.data[read.position :] if read.position else read.data for read in some]
            self._take(list(zip(some, runs, strict=False)), data)
            reads = [read for read in reads if read.position < len(read.data)]
        for read in reads:
            while read.position < len(read.data):
                self._take([(read, runs[0])], (read.data[read.position :] if read.position else read.data,))

    def _take(self, runs: Sequence[ReadRun], data: Sequence[bytes]) -> None:
        """Handle the frames of some reads, as far as there are rows for them."""
        ops, frames, check = kernels.loading.ops, self._frames, self._check
        frames.begin(data)
        kinds = ops.frames.read(frames)
        if check is not None:
            check.begin()
        try:
            while runs:
                if check is not None:
                    kinds = check.pass_on(runs)
                for bit, kind, taker in self._in_order:
                    if kinds == bit:
                        taker.take(ops, frames, runs)
                        break
                    if kinds & bit:
                        taker.take(ops, frames, [one for one in runs if one[1].kind == kind])
                runs, kinds = self._next_runs(runs)
        except BaseException:
            for read, run in runs:  # what was answered in this round is not answered again
                read.position = max(read.position, self._done_end(read, run))
            raise

    def _next_runs(self, runs: Sequence[ReadRun]) -> tuple[list[ReadRun], int]:
        """Begin the next run of each read; return those that have one, and their kinds as bits."""
        more: list[ReadRun] = []
        kinds = 0
        for one in runs:
            read, run = one
            if run.is_whole and run.done == run.end_row:  # nearly always
                read.position = len(read.data)
                run.kind = FrameKind.COMMAND
            elif self._has_more(read, run):
                more.append(one)
                kinds |= 1 << run.kind
        return more, kinds

    def _has_more(self, read: Read, run: ReadFrames) -> bool:
        """Handle the commands that a run has left, and begin the next one; return whether there is one.

        If not, the rest of the read is handled that is no whole frame.
        """
        frames, rows, done, left = self._frames, self._frames.rows, run.done, run.commands_end
        read.position = self._done_end(read, run)
        if left > done:
            if left == run.last < run.end_row and not rows[left].kind:
                left = rows[left].next
            data = frames.data[rows[done].begin : rows[left - 1].end]
            if not read.session.handle(read, data, frames.commands(done, left)):
                drop(read, run)
                return False
        frames.begin_run(run, left)
        if left == run.end_row and run.has_rest:
            read.session.handle(read, frames.data[run.frames_end : run.end])
        return left < run.end_row

    def _done_end(self, read: Read, run: ReadFrames) -> int:
        """Return the position in a read behind the frames of its run that are answered."""
        if run.done == run.first:
            return read.position
        return len(read.data) - (run.end - self._frames.rows[run.done - 1].end)


def drop(read: Read, run: ReadFrames) -> None:
    """Handle nothing more of a read."""
    read.position = len(read.data)
    run.kind, run.done, run.is_whole = FrameKind.COMMAND, run.end_row, True


class RowCheck:
    """Checks the rows of a guarded server's frames."""

    def __init__(self, guard: Guard, frames: Frames) -> None:
        self._guard = guard
        self._repeats = guard.repeats
        self._frames = frames
        self._texts = frames.texts.data
        self._signed = frames.signed_numbers
        self._refusals: dict[int, tuple[Command, str]] = {}  # by the row

    def begin(self) -> None:
        """Begin with the frames that have just been read."""
        self._refusals.clear()

    def pass_on(self, runs: Sequence[ReadRun]) -> int:
        """Check all runs; return the kinds, as bits, of those of which anything is left."""
        kinds = 0
        for read, run in runs:
            if run.kind:
                self._cut_run(read, run)
            kinds |= 1 << run.kind
        return kinds

    def _cut_run(self, read: Read, run: ReadFrames) -> None:
        """Check a run, and cut it before the first frame that is refused.

        If that is the first frame, it is answered and nobody takes the run; without a refusal the check has
        failed: as a command it fails again, and is answered.
        """
        first = run.first
        if run.checked < first:
            run.checked = first
        if run.checked < run.last and run.checked not in self._refusals:
            attempt(read.session, (), self._check, read.session, run)
        run.last = min(run.last, run.checked)
        if run.last > first:
            return
        run.kind = FrameKind.COMMAND
        run.last = run.commands_end = first + 1
        refusal = self._refusals.pop(first, None)
        if refusal is not None:
            run.done = run.last
            command, why = refusal
            attempt(read.session, (command,), refuse, read.session, command, why, self._guard)
            if read.session.closed:
                drop(read, run)

    def _check(self, session: Session, run: ReadFrames) -> None:
        """Check the frames of a run up to the first one that is refused.

        One that is like those that were allowed from there needs its user's signature only.
        """
        data, texts, address, number = self._frames.data, self._texts, session.peer[0], run.checked
        known = self._repeats.known_from(address) if session.newcomers is None else {}
        rows = self._signed[number : run.last].tolist()
        for body_at, end, signed_at, signature_at, key_at, key_end in rows:
            key = bytes(texts[key_at:key_end])
            user = known.get(key)
            parts = texts[signed_at:signature_at], data[body_at:end]
            if user is None or not user.has_signed(texts[signature_at:key_at], *parts):
                run.checked = number
                if not self._is_allowed(session, number, key):
                    return
                if session.newcomers is None:
                    known = self._repeats.known_from(address)
            number += 1
        run.checked = number

    def _is_allowed(self, session: Session, number: int, key: bytes) -> bool:
        """Check a frame that is like none before it, remember what was decided, and return it."""
        command, address = self._frames.request(number), session.peer[0]
        refusal = self._guard.refusal(command, address)
        if refusal is not None:
            self._refusals[number] = command, refusal
            return False
        self._repeats.add(address, key, command.ext_fields.get(ACCESS_KEY, ""))
        recognise(session, command, self._guard)
        return True


def _joined(reads: Sequence[Read]) -> Sequence[Read]:
    """Return the first reads that are read together, one at least."""
    count = size = 0
    for read in reads[:READS_MAX]:
        size += len(read.data) - read.position
        if count and size > JOINED_MAX:
            break
        count += 1
    return reads[:count]
