"""PULL_MESSAGE and LITE_PULL_MESSAGE, held while there is nothing new (long polling).

A pull becomes a row: read with others from the bytes of a turn, or built from a command. It is checked, added
to the store's bulk read, and answered with others. Pulls that the leaf operations of the bulk read leave are
read by a reading, which may wait for the disk::

    frames ─► rows ─► checked ─► added ─► answered
    command ─► row ──┘  │          ├───► held ─► (a message, the deadline, a reset) ─► added
                        │          └───► read by a reading ─► answered or held
                        ├► put off ─► (its member's newer subscription is known) ─► checked
                        └► refused

A pull that finds nothing new is held if it may wait. It is added again when a matching message arrives, or
when its deadline passes, and answered then whatever is found; if topics, groups or consumers have changed
meanwhile, it is checked again first. One with an SQL92 filter is added at any message, and is held on after
messages that do not match.
(RocketMQ: PullMessageProcessor.java, PullRequestHoldService.java.)
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import Reads
from cometmq.broker.requests.pull_rows import FOUND, IfNothing, PullReader, PullRow
from cometmq.broker.requests.pull_targets import PullTargets, unchecked
from cometmq.broker.requests.runs import ReadRun
from cometmq.broker.requests.suggestions import Suggestions
from cometmq.broker.settings_by_subject import PullSettings
from cometmq.broker.state.newer_subscriptions import NewerSubscriptions
from cometmq.broker.state.offsets import NO_OFFSET, Offsets
from cometmq.broker.state.rates import Rates
from cometmq.broker.state.subscriptions import NotLatest, Subscriptions
from cometmq.cluster.hold import PullHold
from cometmq.cluster.route import MASTER
from cometmq.kernels.frames.rows import Frames, ReadFrames
from cometmq.kernels.ops import Ops
from cometmq.kernels.pulls.plain import row_of
from cometmq.kernels.pulls.rows import (
    NOTHING_TO_COMMIT,
    PULLS_MAX,
    PullState,
    ReadOutcome,
    constants_of,
)
from cometmq.net.boundary import attempt
from cometmq.net.server import Session
from cometmq.store.read.bulk_reads import Answered
from cometmq.store.read.get_result import GetResult, GetStatus
from cometmq.store.store import MessageStore
from cometmq.store.upkeep.dispatch import Arrival
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import PullFlag, PullHeader, PullResponseHeader, fields

SUSPEND_MS_MAX: Final = 120_000
"""Longest hold of a pull: a connection that is silent for so long is closed."""

CODES: Final = {
    GetStatus.FOUND: ResponseCode.SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.MESSAGE_WAS_REMOVING: ResponseCode.PULL_RETRY_IMMEDIATELY,
    GetStatus.NO_MATCHED_LOGIC_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.NO_MESSAGE_IN_QUEUE: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_FOUND_NULL: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: ResponseCode.PULL_NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: ResponseCode.PULL_OFFSET_MOVED,
    GetStatus.OFFSET_TOO_SMALL: ResponseCode.PULL_OFFSET_MOVED,
}
_ASKED: Final = int(PullState.ASKED)
_DECIDED: Final = int(PullState.DECIDED)
_FOUND_SOME: Final = int(ReadOutcome.FOUND)
_UNSURE: Final = (int(PullState.OUTSIDE), int(PullState.RARE))
"""States of a pull whose offset, and so its commit, may lie beyond the end of its queue."""
_EMPTY: Final = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)


class RunPulls(NamedTuple):
    """A run whose pulls are in the bulk read.

    Attributes:
        end: the position behind its pulls among those of all runs; those of the next run begin there.
    """

    run: ReadFrames
    end: int


class PullRequests:
    """Answers pulls, and holds those that wait.

    Args:
        newer: asks members for subscriptions that are newer than known.
        suggestions: which brokers pulls are told to read from next; None for the master, always.

    Attributes:
        short_polling_ms: how long to hold instead of the time in the pull's header; None for the latter.
    """

    def __init__(
        self,
        store: MessageStore,
        reads: Reads,
        subscriptions: Subscriptions,
        offsets: Offsets,
        rates: Rates,
        settings: PullSettings,
        newer: NewerSubscriptions,
        suggestions: Suggestions | None,
    ) -> None:
        self._store = store
        self._reads = reads
        self._bulk = store.readings.bulk
        self._subscriptions = subscriptions
        self._targets = PullTargets(subscriptions, lite_pull=settings.lite_pull_message_enable)
        self._reader = PullReader(store, self._targets, offsets, rates)
        self._offsets = offsets
        self._rates = rates
        self._clock = store.clock
        self.short_polling_ms = settings.short_polling_ms
        self._suggestions = suggestions
        self._newer = newer
        self._constants = constants_of(FOUND)
        self._hold = PullHold[PullRow]()
        self._awake: list[PullRow] = []
        store.on_arrival(self.arrive, [self._hold.queues])

    @property
    def held_count(self) -> int:
        """The number of held pulls."""
        return len(self._hold)

    def take(self, ops: Ops, frames: Frames, runs: Sequence[ReadRun]) -> None:
        """Answer or hold the pulls of a turn: see ``broker.requests.runs.Taker``."""
        pulls: list[PullRow] = []
        added: list[RunPulls] = []
        self._bulk.begin()
        for read, run in runs:
            if read.session.congested:
                run.commands_end = run.last
            elif len(pulls) < PULLS_MAX:  # else the next call reads them
                count = self._reader.read(ops, frames, read.session, run.first, run.last, pulls)
                if count:
                    added.append(RunPulls(run, len(pulls)))
                else:
                    run.commands_end = run.first + 1
        self._answer(pulls, added)

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.PULL_MESSAGE: self.handle,
            RequestCode.LITE_PULL_MESSAGE: self.handle,
        }

    def handle(self, session: Session, command: Command, header: PullHeader) -> None:
        """Answer a pull, or hold it. Raises CometMQError if it must be refused."""
        try:
            target = self._targets.check(command.code, header)
        except NotLatest:
            pull = PullRow(session, unchecked(command), row_of(command, header))
            if command.is_oneway or not self._put_off(pull):
                raise
            return
        if command.is_oneway:
            return  # it needs no response
        self._rates.pull_commands += 1
        self._serve([PullRow(session, target, row_of(command, header))])

    def offsets_reset(self, group: str, topic: str, queue_id: int) -> None:
        """Answer the held pulls of a group whose offset was reset; if there are none, its next pull is."""
        self._serve_again(
            self._hold.release(topic, queue_id, lambda pull: pull.target.header.consumer_group == group)
        )

    def arrive(self, arrivals: list[Arrival]) -> None:
        """Wake the held pulls that messages match; they are answered at the end of the loop's turn."""
        if awake := self._hold.arrive(arrivals):
            if not self._awake:
                asyncio.get_running_loop().call_soon(self._answer_awake)
            self._awake += awake

    def expire(self, ahead_ms: int = 0) -> None:
        """Answer the pulls whose deadline has passed, or will in ``ahead_ms``; call it every second."""
        if self._suggestions is not None:
            self._suggestions.compare()
        self._serve_again(self._hold.expire(self._clock.monotonic_ms() + ahead_ms))

    def closed(self, session: Session) -> None:
        """Drop the held pulls of a closed connection."""
        self._hold.forget(session)
        self._newer.closed(session)

    def _answer_awake(self) -> None:
        awake, self._awake = self._awake, []
        awake.sort(key=lambda pull: id(pull.session))  # responses to one session are sent together
        self._serve_again(awake, by_arrival=True)

    def _serve(self, pulls: list[PullRow]) -> None:
        """Add checked pulls to the bulk read, and answer or hold them."""
        while pulls:
            some = pulls[:PULLS_MAX]
            self._bulk.begin()
            for pull in some:
                self._reader.add(pull)
            pulls = self._answer(some) + pulls[PULLS_MAX:]

    def _put_off(self, pull: PullRow) -> bool:
        """Suspend a pull until its member's subscription is known; return False if that is of no use."""

        def go_on() -> None:
            again = PullRow(pull.session, pull.target, row_of(pull.command, pull.target.header))
            if self._reader.check_again(again):
                self._serve([again])

        return self._newer.wait(pull.session, pull.command, pull.target.header, go_on)

    def _serve_again(self, pulls: Sequence[PullRow], *, by_arrival: bool = False) -> None:
        """Serve pulls that were held, unless a new check refuses them."""
        allowed: list[PullRow] = []
        is_out_of_date = self._subscriptions.is_out_of_date
        for pull in pulls:
            if not is_out_of_date(pull.target.pull_filter) or self._reader.check_again(pull):
                is_filtered = pull.target.pull_filter.record_filter is not None
                pull.if_nothing = IfNothing.HOLD_ON if by_arrival and is_filtered else IfNothing.ANSWER
                allowed.append(pull)
        self._serve(allowed)

    def _answer(self, pulls: list[PullRow], added: Sequence[RunPulls] = ()) -> list[PullRow]:
        """Answer or hold the pulls of the bulk read; return those left when a session becomes congested.

        Args:
            added: the runs that ``pulls`` are of; none if they are not of frames.
        """
        first = 0
        while first < len(pulls):
            answered = self._bulk.answer(self._constants)
            end = len(pulls)
            if not self._bulk.are_all_answered:
                asked = [n for n in range(first, end) if pulls[n].state == _ASKED]
                end = asked[len(answered)]
            begin = 0
            for run, run_end in added:
                if first < run_end and begin < end:
                    run.done = run.commands_end = pulls[min(run_end, end) - 1].frame + 1
                begin = run_end
            self._conclude(pulls[first:end], answered)
            first = end
            if first < len(pulls) and any(pull.session.congested for pull in pulls[first:]):
                break  # the others are read from their frames again, or added again by ``_serve``
        return pulls[first:]

    def _conclude(self, pulls: Sequence[PullRow], answered: list[Answered]) -> None:
        """Answer or hold pulls; all their offsets are recorded before the first response is sent."""
        results = iter(answered)
        notes: list[tuple[str, int, int, int, int]] = []
        asked: list[PullRow] = []
        rest: list[tuple[PullRow, Answered | None]] = []
        found = delivered = 0
        for pull in pulls:
            target, state, one, next_offset = pull.target, pull.state, None, -1
            if state == _ASKED:
                one = next(results)
                asked.append(pull)
                if one.outcome == _FOUND_SOME:
                    next_offset = one.next_offset
                    found += 1
                    delivered += one.record_count
            elif state == _DECIDED and pull.answer is None:
                self._reader.decide_reset(pull)  # only now: what is not concluded is read, or added, again
                state = pull.state
            if next_offset < 0:
                rest.append((pull, one))
            commit_offset, queue_id = pull.commit_offset, target.queue[1]
            if commit_offset >= 0 or next_offset >= 0:
                notes.append((target.key, queue_id, commit_offset, pull.asked_offset, next_offset))
                if commit_offset > pull.asked_offset or (commit_offset > 0 and state in _UNSURE):
                    self._offsets.warn_if_ahead(target.key, queue_id, commit_offset)
        self._offsets.record_pulls(notes)
        self._rates.found.total += found
        self._rates.delivered.total += delivered
        if self._suggestions is not None and self._suggestions.are_made:
            self._send_suggesting(asked, answered, self._suggestions)
        else:
            self._send_found(asked, answered)
        now_ms = self._clock.monotonic_ms() if rest else 0
        for pull, one in rest:
            pull.commit_offset = NOTHING_TO_COMMIT  # it is committed: a held pull must not repeat it
            if pull.answer is not None:
                self._rates.rare_pulls += 1
                if not (pull.is_ahead and self._put_off(pull)):
                    pull.session.send(pull.answer)
            else:
                attempt(pull.session, (pull.command,), self._hold_or_read, pull, one, now_ms)

    def _hold_or_read(self, pull: PullRow, one: Answered | None, now_ms: int) -> None:
        """Hold, answer or read by a reading a pull for which the leaf operations have found nothing."""
        is_known = self._suggestions is None or not self._suggestions.are_made  # else how far behind, too
        if is_known and one is not None and one.outcome == ReadOutcome.NONE_WANTED:
            where = one.next_offset, one.min_offset, one.max_offset
            self._settle(pull, GetResult(GetStatus.NO_MATCHED_MESSAGE, *where, []))
            return
        if pull.state == PullState.AT_END and pull.if_nothing is IfNothing.HOLD:
            if self._wait(pull, now_ms):
                return
            pull.if_nothing = IfNothing.ANSWER
        if pull.session.congested:
            pull.session.when_drained(partial(self._read_slowly, pull), pull.command)
        elif not pull.session.closed:
            self._read_slowly(pull)

    def _send_found(self, asked: Sequence[PullRow], answered: Sequence[Answered]) -> None:
        """Send the responses with messages; adjacent ones to the same session are sent together."""
        begin = end = 0
        last: Session | None = None
        for pull, one in zip(asked, answered, strict=True):
            if (session := pull.session) is not last:
                if last is not None and end > begin:
                    last.send(self._bulk.answers(begin, end))
                begin, last = end, session
            end = one.end
        if last is not None and end > begin:
            last.send(self._bulk.answers(begin, end))

    def _send_suggesting(
        self, asked: Sequence[PullRow], answered: Sequence[Answered], suggestions: Suggestions
    ) -> None:
        """Send the responses with messages one by one, each with the broker to read from next."""
        begin = 0
        for pull, one in zip(asked, answered, strict=True):
            if one.end > begin:
                answer = self._bulk.answers(begin, one.end)
                pull.session.send(suggestions.put_into(answer, pull, one))
            begin = one.end

    def _read_slowly(self, pull: PullRow) -> None:
        """Read a pull's messages by a reading, which may wait for the disk."""
        self._rates.rare_pulls += 1
        target, pull_filter = pull.target, pull.target.pull_filter
        reading = self._store.readings.get(
            *target.queue,
            pull.queue_offset,
            pull.max_count,
            pull.max_bytes,
            pull_filter.tags_codes,
            pull_filter.record_filter,
        )
        settle = partial(self._settle, pull)
        refusal = self._reads.answer(pull.session, pull.command, reading, settle)
        if refusal is not None:
            pull.session.send(refusal)

    def _settle(self, pull: PullRow, result: GetResult) -> None:
        """Answer a pull with the result of a read, or hold it, or hold it on."""
        now_ms = self._clock.monotonic_ms()
        if pull.if_nothing is IfNothing.HOLD:
            if _code(pull, result) is ResponseCode.PULL_NOT_FOUND and self._wait(pull, now_ms):
                return
        elif pull.if_nothing is IfNothing.HOLD_ON and result.status is GetStatus.NO_MATCHED_MESSAGE:
            end = self._store.max_queue_offset(*pull.target.queue)  # it may have grown meanwhile
            if result.next_offset >= end:
                pull.queue_offset = result.next_offset
                pull.wait_until(pull.deadline_ms)
                if now_ms < pull.deadline_ms and self._hold.hold(pull):
                    return
        self._send(pull, result)

    def _wait(self, pull: PullRow, now_ms: int) -> bool:
        """Hold a pull if it may wait and there is room; return whether it needs no response now."""
        wait_ms = min(pull.suspend_ms, SUSPEND_MS_MAX)
        if self.short_polling_ms is not None:
            wait_ms = self.short_polling_ms
        if not pull.sys_flag & PullFlag.SUSPEND or wait_ms <= 0:
            return False
        if self._suggestions is not None and self._suggestions.sends_back(is_far_behind=False):
            return False
        if self._offsets.is_any_reset and (reset := self._reader.reset_answer(pull)) is not None:
            pull.session.send(reset)  # the reset came during the read
            return True
        pull.wait_until(now_ms + wait_ms)
        self._offsets.record_begun(pull.target.key, pull.target.queue[1], pull.queue_offset)
        return self._hold.hold(pull)

    def _send(self, pull: PullRow, result: GetResult) -> None:
        topic, queue_id = pull.target.queue
        group = pull.target.header.consumer_group
        if result.status is GetStatus.OFFSET_OVERFLOW_BADLY and (
            self._offsets.committed(group, topic, queue_id) is None
        ):  # the queue was made anew
            result = result._replace(next_offset=result.min_offset)
        begun = min(pull.queue_offset, result.next_offset)
        self._offsets.record_pulls(((pull.target.key, queue_id, NO_OFFSET, begun, result.next_offset),))
        suggested, code = MASTER, _code(pull, result)
        if self._suggestions is not None:
            suggested = self._suggestions.broker_id(group, is_far_behind=result.is_far_behind)
            if self._suggestions.sends_back(is_far_behind=result.is_far_behind):
                code = ResponseCode.PULL_RETRY_IMMEDIATELY
        where = suggested, result.next_offset, result.min_offset, result.max_offset
        if result.status is GetStatus.FOUND:
            self._rates.found.total += 1
            self._rates.delivered.total += len(result.sizes)
            size = sum(result.sizes)
            pull.session.send(b"".join((FOUND.encode(pull.command, where, size), *result.runs)))
            return
        self._rates.missed.total += 1
        answer = fields(PullResponseHeader(*where))
        pull.session.send(response(pull.command, code, result.status.name, answer))


def _code(pull: PullRow, result: GetResult) -> ResponseCode:
    """Return the response code of a read; in an empty queue only offset 0 is right."""
    if result.status in _EMPTY and pull.asked_offset == 0:
        return ResponseCode.PULL_NOT_FOUND
    return CODES[result.status]
