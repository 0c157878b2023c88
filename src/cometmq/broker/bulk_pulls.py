"""Pulls in bulk: the usual ones of a turn are read, and those that find something answered, by kernels.

What is not usual, is refused or fails is left to ``pull.Pulls``, which is also the definition of what happens
here. What a pull may be given is judged by ``Subscriptions`` alone: its answer is remembered until a topic, a
group or what a group has subscribed to changes.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from cometmq.broker.asked_pull import BYTES_MIN, AskedPull, bytes_within_bounds
from cometmq.broker.offsets import Offsets, key_of
from cometmq.broker.rates import Rates
from cometmq.broker.subscriptions import Subscriptions, Wanted
from cometmq.errors import CometMQError
from cometmq.kernels.ops import Longs
from cometmq.kernels.pull_table import KEY_SIZE_MAX, PullTable
from cometmq.kernels.pulls import (
    ADDED,
    AT_END,
    COMMIT_OFFSET,
    FRAME_AT,
    FRAME_END,
    HASH,
    IS_BINARY,
    IS_FILTERED,
    MAX_BYTES,
    MAX_COUNT,
    NO_CODES,
    NO_NUMBER,
    NO_TARGET,
    NUMBER,
    OUTSIDE,
    PLACE,
    PULL_SIZE,
    PULLS_MAX,
    QUEUE_NUMBER,
    QUEUE_OFFSET,
    SUSPEND_MS,
    SYS_FLAG,
    TARGET,
    TARGET_SIZE,
    UNKNOWN_AT,
    UNKNOWN_END,
    PullOps,
    constants_of,
)
from cometmq.kernels.sends import PLACES_SIZE
from cometmq.net.server import Session
from cometmq.net.turn import Read
from cometmq.store.bulk_reads import Answered, BulkReads
from cometmq.store.get_result import GetResult, GetStatus
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, SerializeType, decode
from cometmq.wire.headers import PullFlag, PullHeader, parse

TARGETS_MAX: Final = 100_000
"""So much is remembered."""

_TARGETS_ROOM: Final = 64
_ANY: Final = 0, NO_CODES
_SERIALIZE_TYPES: Final = tuple(SerializeType)


@dataclass(slots=True)
class _Target:
    """A queue, and what somebody may be given of it.

    Attributes:
        subscription: the filter of its pulls, the version of that, and its type.
        key: of group and topic among the offsets.
        codes: where the hashes of the wanted tags stand, and where they end.
    """

    code: int
    group: str
    topic: str
    queue_id: int
    subscription: tuple[str | None, int, str | None]
    key: str
    wanted: Wanted
    codes: tuple[int, int]


class _Job(NamedTuple):
    """A pull that is taken.

    Attributes:
        row: its numbers: see ``kernels.pulls``.
    """

    read: Read
    row: list[int]
    target: _Target


class BulkPulls:
    """Takes the usual pulls.

    Args:
        pieces: the constant parts of answers: see ``NumbersTemplate.pieces``.
        lite_pull: whether LITE_PULL_MESSAGE is answered.
        look: does a pull the plain way.
        hold: holds pulls that begin where their queues end, or answers them.
        finish: answers a pull that found nothing, or holds it.
    """

    def __init__(
        self,
        reads: BulkReads,
        subscriptions: Subscriptions,
        offsets: Offsets,
        rates: Rates,
        pieces: list[bytes],
        *,
        lite_pull: bool,
        look: Callable[[AskedPull], None],
        hold: Callable[[Sequence[AskedPull]], None],
        finish: Callable[[AskedPull, GetResult], None],
    ) -> None:
        self._reads = reads
        self._subscriptions = subscriptions
        self._offsets = offsets
        self._rates = rates
        self._constants = constants_of(pieces)
        self._lite_pull = lite_pull
        self._look = look
        self._hold = hold
        self._finish = finish
        self._rows: Longs = np.empty((0, PULL_SIZE), np.int64)
        self._places: Longs = np.empty(PLACES_SIZE, np.int64)
        self._table = PullTable()
        subscriptions.when_changed(self.forget)
        self.forget()

    def forget(self, *_: object) -> None:
        """Forget what pulls may be given: something has changed that it depends on."""
        self._table.clear()
        self._targets: list[_Target | None] = []  # None is for those that are done the plain way
        self._known: Longs = np.empty((_TARGETS_ROOM, TARGET_SIZE), np.int64)  # the same, for kernels
        self._codes: Longs = np.empty(0, np.int64)
        self._code_places: dict[frozenset[int], tuple[int, int]] = {}

    def take(self, reads: Sequence[Read], ends: Sequence[int]) -> list[Read]:
        """Answer or hold the pulls at the ``position`` of reads, up to another frame or to ``ends``.

        Moves ``position`` and sets ``commands_end`` as a ``net.turn.BulkHandler`` does. Gives the reads that
        do not begin with a usual pull; of these ``commands_end`` is where the next one begins.
        """
        others: list[Read] = []
        ops = self._reads.ops()
        if ops is None:
            for read, end in zip(reads, ends, strict=True):
                read.commands_end = end
            return list(reads)
        if not len(self._rows):
            self._rows = np.empty((PULLS_MAX, PULL_SIZE), np.int64)
            self._unknown = np.zeros(PULLS_MAX * KEY_SIZE_MAX, np.uint8)
        self._reads.begin()
        jobs: list[_Job] = []
        for read, end in zip(reads, ends, strict=True):
            if len(jobs) >= PULLS_MAX:
                read.commands_end = read.position  # its turn comes when these are answered
            elif read.session.congested:
                read.commands_end = end
            elif not self._read(ops, read, end, jobs):
                others.append(read)
        codes = self._codes
        while jobs:
            jobs = self._done(jobs, self._reads.answer(ops, self._constants, codes))
            if any(job.read.session.congested for job in jobs):
                break  # what is left is read again, by whoever may wait
        return others

    def answer(self, pulls: Sequence[AskedPull]) -> list[AskedPull]:
        """Answer held pulls for which something has come; give those that are to be done the plain way."""
        ops = self._reads.ops()
        if ops is None:
            return list(pulls)
        waiting = sorted(pulls, key=lambda pull: id(pull.session))
        rest: list[AskedPull] = []
        while waiting:
            self._reads.begin()
            asked: list[AskedPull] = []
            for pull in waiting[:PULLS_MAX]:
                (asked if self._ask(pull) else rest).append(pull)
            answered = self._reads.answer(ops, self._constants, self._codes)
            waiting = asked[len(answered) :] + waiting[PULLS_MAX:]
            asked = asked[: len(answered)]
            self._send([pull.session for pull in asked], answered)
            notes: list[tuple[str, int, int, int]] = []
            for pull, one in zip(asked, answered, strict=True):
                if one.found > 0:
                    header = pull.header
                    key = key_of(header.consumer_group, header.topic)
                    notes.append((key, header.queue_id, -1, one.next_offset))
                else:
                    rest.append(pull)
            self._offsets.note_pulls(notes)
        return rest

    def _read(self, ops: PullOps, read: Read, end: int, jobs: list[_Job]) -> bool:
        """Read the pulls of a read; tell whether it begins with one, whoever is to answer it."""
        table = self._table
        count, _, read.commands_end = ops.read(
            *(read.data, read.position, end, self._rows, self._places, self._unknown),
            *(table.keys, table.rows, table.slots),
        )
        rows, targets, known, at = self._rows, self._targets, self._known, 0
        while at < count:
            end_known = at
            if not self._offsets.is_any_reset:
                end_known = self._reads.add_known(ops, rows, at, count, known, BYTES_MIN)
                jobs += [_Job(read, row, targets[row[TARGET]]) for row in rows[at:end_known].tolist()]
            if end_known < count and not self._read_one(read, rows[end_known].tolist(), targets, known, jobs):
                break
            at = end_known + 1
        return count > 0

    def _read_one(
        self, read: Read, row: list[int], targets: list[_Target | None], known: Longs, jobs: list[_Job]
    ) -> bool:
        """Take a pull of which the kernel knows too little; tell whether it was one for here.

        Args:
            targets: those that the row means, as for ``known``: there may be others by now.
        """
        is_new = row[TARGET] == NO_TARGET
        target = self._learn(read, row) if is_new else targets[row[TARGET]]
        if target is None or self._offsets.awaits_reset(target.key):
            if row[FRAME_AT] == read.position:
                read.commands_end = row[FRAME_END]
            return False
        row[PLACE] = self._reads.add(
            *(target.topic, target.queue_id, row[QUEUE_OFFSET]),
            *(max(row[MAX_COUNT], 1), bytes_within_bounds(row[MAX_BYTES])),
            *(*target.codes, row[NUMBER], row[IS_BINARY]),
        )
        if not is_new:
            known[row[TARGET], QUEUE_NUMBER] = self._reads.number_of(target.topic, target.queue_id)
        jobs.append(_Job(read, row, target))
        return True

    def _done(self, jobs: list[_Job], answered: Sequence[Answered]) -> list[_Job]:
        """Let pulls be taken as far as there are answers; give the others.

        All that comes of one is known before anybody is told.
        """
        results, taken = iter(answered), 0
        notes: list[tuple[str, int, int, int]] = []
        sessions: list[Session] = []
        at_end: list[_Job] = []
        unfinished: list[tuple[_Job, Answered | None]] = []
        for job in jobs:
            read, row, target = job
            place = row[PLACE]
            next_offset, one = -1, None
            if place == ADDED:
                if (one := next(results, None)) is None:
                    break  # there was no room for its answer
                sessions.append(read.session)
            if one is not None and one.found > 0:
                next_offset = one.next_offset
            elif place == AT_END:
                at_end.append(job)
            else:
                unfinished.append((job, one))
            read.position = row[FRAME_END]
            commit_offset = row[COMMIT_OFFSET] if row[SYS_FLAG] & PullFlag.COMMIT_OFFSET else -1
            notes.append((target.key, target.queue_id, commit_offset, next_offset))
            if commit_offset > row[QUEUE_OFFSET] or (place == OUTSIDE and commit_offset > 0):
                self._offsets.warn_if_ahead(target.key, target.queue_id, commit_offset)
            taken += 1
        for job in jobs:
            job.read.commands_end = job.read.position  # what follows is looked at next
        self._offsets.note_pulls(notes)
        self._send(sessions, answered[: len(sessions)])
        if at_end:
            self._hold([_asked(job) for job in at_end])
        for job, one in unfinished:
            self._finish_job(_asked(job), one)
        return jobs[taken:]

    def _finish_job(self, pull: AskedPull, answered: Answered | None) -> None:
        """Answer or hold a pull that found nothing; do an unusual one the plain way."""
        if answered is not None and answered.found == 0:
            where = answered.next_offset, answered.min_offset, answered.max_offset
            self._finish(pull, GetResult(GetStatus.NO_MATCHED_MESSAGE, *where, []))
        else:
            self._look(pull)

    def _send(self, sessions: Sequence[Session], answered: Sequence[Answered]) -> None:
        """Send answers: those of a session that lie side by side together."""
        begin = end = 0
        last: Session | None = None
        for session, one in zip(sessions, answered, strict=True):
            if session is not last:
                if last is not None and end > begin:
                    last.send(self._reads.answers(begin, end))
                begin, last = end, session
            end = one.end
        if last is not None and end > begin:
            last.send(self._reads.answers(begin, end))
        found = [one.found for one in answered if one.found > 0]
        self._rates.found.total += len(found)
        self._rates.given.total += sum(found)

    def _ask(self, pull: AskedPull) -> bool:
        """Add a held pull to those that are answered; False if it is not a usual one."""
        header, (tags_codes, record_filter, _), session = pull.header, pull.wanted, pull.session
        codes = _ANY if tags_codes is None else self._place_of(tags_codes)
        if record_filter is not None or codes is None or session.congested or session.closed:
            return False
        place = self._reads.add(
            *(header.topic, header.queue_id, pull.queue_offset, pull.max_count, pull.max_bytes, *codes),
            *(pull.command.opaque, pull.command.serialize_type),
        )
        return place == ADDED

    def _learn(self, read: Read, row: list[int]) -> _Target | None:
        """Judge a pull that has not been seen, and remember what comes of it."""
        key = self._unknown[row[UNKNOWN_AT] : row[UNKNOWN_END]]
        target = self._judged(read.data[row[FRAME_AT] : row[FRAME_END]])  # which may change something
        if self._table.count >= TARGETS_MAX:
            self.forget()
        if (number := self._table.put(key, row[HASH])) == len(self._targets):
            self._targets.append(target)
            if number == len(self._known):
                self._known = np.concatenate((self._known, np.empty_like(self._known)))
            self._known[number, QUEUE_NUMBER] = NO_NUMBER
            self._known[number, IS_FILTERED] = target is not None and target.codes != _ANY
        return target

    def _judged(self, frame: bytes) -> _Target | None:
        try:
            command = decode(frame)
            header = parse(PullHeader, command.ext_fields)
            wanted = self._subscriptions.wanted(header)
        except CometMQError:
            return None  # the plain path says why
        codes = self._place_of(wanted.tags_codes)
        is_lite = command.code == RequestCode.LITE_PULL_MESSAGE
        if wanted.record_filter is not None or codes is None or (is_lite and not self._lite_pull):
            return None
        group, topic = header.consumer_group, header.topic
        subscription = header.subscription, header.sub_version, header.expression_type
        key = key_of(group, topic)
        return _Target(command.code, group, topic, header.queue_id, subscription, key, wanted, codes)

    def _place_of(self, tags_codes: Container[int] | None) -> tuple[int, int] | None:
        """Give where hashes of tags stand, put there if need be; None if they are none for kernels."""
        if tags_codes is None:
            return _ANY
        if not isinstance(tags_codes, frozenset) or not tags_codes:
            return None
        place = self._code_places.get(tags_codes)
        if place is None:
            begin = len(self._codes)
            self._codes = np.append(self._codes, np.array(sorted(tags_codes), np.int64))
            place = self._code_places[tags_codes] = begin, len(self._codes)
        return place


def _asked(job: _Job) -> AskedPull:
    """Give a pull as the plain way has it."""
    read, row, target = job
    command = Command(target.code, row[NUMBER], serialize_type=_SERIALIZE_TYPES[row[IS_BINARY]])
    header = PullHeader(
        *(target.group, target.topic, target.queue_id, row[QUEUE_OFFSET], row[MAX_COUNT], row[SYS_FLAG]),
        *(row[COMMIT_OFFSET], row[SUSPEND_MS], *target.subscription, row[MAX_BYTES]),
    )
    return AskedPull(read.session, command, header, target.wanted, row[QUEUE_OFFSET])
