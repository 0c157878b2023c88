"""PULL_MESSAGE and LITE_PULL_MESSAGE, held while there is nothing new (long polling).

A pull is looked at once when it comes. If nothing is new and it may wait, it is held; it is looked at
again when a message that it wants arrives, or when its time is up, and answered then whatever is found;
if topics, groups or subscriptions have changed meanwhile, by what it may be given now.
One with an SQL92 filter is looked at again for any message, and goes on waiting behind those that it does not
want.
(RocketMQ: PullMessageProcessor.java, PullRequestHoldService.java.)
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from cometmq.broker.asked_pull import AskedPull
from cometmq.broker.bulk_pulls import BulkPulls
from cometmq.broker.offsets import Offsets
from cometmq.broker.rates import Rates
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused, code_of
from cometmq.broker.requests import Handlers
from cometmq.broker.subscriptions import Subscriptions
from cometmq.cluster.hold import PullHold
from cometmq.errors import CometMQError
from cometmq.io.clock import Clock
from cometmq.net.boundary import attempt
from cometmq.net.server import Session
from cometmq.store.dispatch import Arrival
from cometmq.store.get_result import GetResult, GetStatus
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import PullFlag, PullHeader, PullResponseHeader, fields
from cometmq.wire.template import NumbersTemplate

SUSPEND_MS_MAX: Final = 120_000
"""No pull is held for longer, whatever it asks for: after so long a silent connection is closed."""

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
_FOUND: Final = NumbersTemplate(
    GetStatus.FOUND.name, ("suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset")
)
"""What ``PullResponseHeader`` says of the nearly all pulls that find something."""
_EMPTY: Final = (GetStatus.NO_MATCHED_LOGIC_QUEUE, GetStatus.NO_MESSAGE_IN_QUEUE)


class Pulls:
    """Answers pulls and holds those that wait.

    Args:
        short_polling_ms: how long to hold instead of what the pull asks for, or None.
        lite_pull: whether LITE_PULL_MESSAGE is answered.

    Attributes:
        bulk: takes pulls before anybody makes commands of them, once the kernels are loaded.
    """

    def __init__(
        self,
        store: MessageStore,
        reads: Reads,
        subscriptions: Subscriptions,
        offsets: Offsets,
        rates: Rates,
        clock: Clock,
        *,
        short_polling_ms: int | None,
        lite_pull: bool,
    ) -> None:
        self._store = store
        self._reads = reads
        self._subscriptions = subscriptions
        self._offsets = offsets
        self._rates = rates
        self._clock = clock
        self._short_polling_ms = short_polling_ms
        self._lite_pull = lite_pull
        self._hold = PullHold[AskedPull]()
        self._awake: list[AskedPull] = []
        self.bulk = BulkPulls(
            store.readings.bulk,
            subscriptions,
            offsets,
            rates,
            _FOUND.pieces(),
            lite_pull=lite_pull,
            look=partial(self._do_safely, self._look),
            hold=self._hold_new,
            finish=self._finish,
        )
        store.on_arrival(self.arrive, is_awaited=self._hold.__len__)

    @property
    def held_count(self) -> int:
        """How many pulls wait."""
        return len(self._hold)

    def handlers(self) -> Handlers:
        """Return what answers which request."""
        return {
            RequestCode.PULL_MESSAGE: self.handle,
            RequestCode.LITE_PULL_MESSAGE: self.handle,
        }

    def handle(self, session: Session, command: Command, header: PullHeader) -> None:
        """Answer a pull, or hold it. Raises CometMQError if it must be refused."""
        if command.code == RequestCode.LITE_PULL_MESSAGE and not self._lite_pull:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                "LITE_PULL_MESSAGE is switched off here: set litePullMessageEnable, or send PULL_MESSAGE",
            )
        pull = AskedPull(session, command, header, self._subscriptions.wanted(header), header.queue_offset)
        if command.is_oneway:
            return  # nobody would take what it finds
        if self._is_told_of_reset(pull):
            return
        if header.sys_flag & PullFlag.COMMIT_OFFSET and header.commit_offset >= 0:
            self._offsets.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
        if session.congested:
            session.when_drained(partial(self._look, pull), command)
        else:
            self._look(pull)

    def offsets_reset(self, group: str, topic: str, queue_id: int) -> None:
        """Tell a group of a reset of its offset at once, if a pull of it is held; else its next pull will."""
        for pull in self._hold.release(topic, queue_id, lambda pull: pull.header.consumer_group == group):
            self._do_safely(self._answer_reset, pull)

    def arrive(self, arrivals: list[Arrival]) -> None:
        """Note what can newly be read; all whom it concerns are answered at the end of the loop's turn."""
        if awake := self._hold.arrive(arrivals):
            if not self._awake:
                asyncio.get_running_loop().call_soon(self._answer_awake)
            self._awake += awake

    def expire(self, ahead_ms: int = 0) -> None:
        """Answer the pulls whose time is up, or will be in ``ahead_ms``; call it every second."""
        for pull in self._hold.expire(self._clock.monotonic_ms() + ahead_ms):
            if self._may_go_on(pull):
                self._do_safely(self._answer, pull)

    def closed(self, session: Session) -> None:
        """Forget the pulls of a connection that is gone."""
        self._hold.forget(session)

    def _answer_awake(self) -> None:
        awake, self._awake = self._awake, []
        for pull in self.bulk.answer([pull for pull in awake if self._may_go_on(pull)]):
            again = self._answer if pull.wanted.record_filter is None else self._look_again
            self._do_safely(again, pull)

    def _may_go_on(self, pull: AskedPull) -> bool:
        """Judge a pull that was held anew if something has changed; refuse it if that is the word now."""
        if not self._subscriptions.is_out_of_date(pull.wanted):
            return True
        try:
            pull.wanted = self._subscriptions.wanted(pull.header)
        except CometMQError as error:
            pull.session.send(response(pull.command, code_of(error), str(error)))
            return False
        pull.queue_offset = pull.header.queue_offset  # what was not wanted before may be now
        return True

    def _do_safely(self, action: Callable[[AskedPull], None], pull: AskedPull) -> None:
        session = pull.session
        if session.congested:
            session.when_drained(partial(action, pull), pull.command)
        elif not session.closed:
            attempt(session, (pull.command,), action, pull)

    def _answer_reset(self, pull: AskedPull) -> None:
        if not self._is_told_of_reset(pull):
            self._answer(pull)  # another member's pull was held, too, and that one knows now

    def _is_told_of_reset(self, pull: AskedPull) -> bool:
        """Answer a pull by the offset to go on from, if that was reset.

        Also if it begins there: what its client has pulled and not handled yet does not count any more.
        """
        header = pull.header
        group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
        offset = self._offsets.take_reset(group, topic, queue_id)
        if offset is None:
            return False
        low, high = (
            self._store.min_queue_offset(topic, queue_id),
            self._store.max_queue_offset(topic, queue_id),
        )
        answer = fields(PullResponseHeader(0, offset, low, high))
        pull.session.send(response(pull.command, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", answer))
        return True

    def _look(self, pull: AskedPull) -> None:
        """Look for the first time: answer, or hold if nothing is new."""
        self._read(pull, self._answer_or_hold)

    def _look_again(self, pull: AskedPull) -> None:
        """Look at what has come: answer, or hold on if none of it is wanted."""
        self._read(pull, self._answer_or_hold_on)

    def _answer(self, pull: AskedPull) -> None:
        """Look again and answer, whatever is found."""
        self._read(pull, self._send)

    def _read(self, pull: AskedPull, then: Callable[[AskedPull, GetResult], None]) -> None:
        header, (tags_codes, record_filter, _), readings = pull.header, pull.wanted, self._store.readings
        where = (
            *(header.topic, header.queue_id, pull.queue_offset),
            *(pull.max_count, pull.max_bytes, tags_codes),
        )
        if record_filter is None and (result := readings.get_at_hand(*where)) is not None:
            then(pull, result)
            return
        reading = readings.get(*where, record_filter)
        refusal = self._reads.answer(pull.session, pull.command, reading, partial(then, pull))
        if refusal is not None:
            pull.session.send(refusal)

    def _answer_or_hold(self, pull: AskedPull, result: GetResult) -> None:
        is_at_end = _code(pull, result) is ResponseCode.PULL_NOT_FOUND
        if not (is_at_end and self._wait(pull, self._clock.monotonic_ms())):
            self._send(pull, result)

    def _finish(self, pull: AskedPull, result: GetResult) -> None:
        """Answer a pull that found nothing, or hold it."""
        attempt(pull.session, (pull.command,), self._answer_or_hold, pull, result)

    def _hold_new(self, pulls: Sequence[AskedPull]) -> None:
        """Hold pulls that begin where their queues end; answer those that may not wait."""
        now_ms = self._clock.monotonic_ms()
        for pull in pulls:
            attempt(pull.session, (pull.command,), self._wait_or_answer, pull, now_ms)

    def _wait_or_answer(self, pull: AskedPull, now_ms: int) -> None:
        if not self._wait(pull, now_ms):
            self._answer(pull)

    def _answer_or_hold_on(self, pull: AskedPull, result: GetResult) -> None:
        header = pull.header
        end = self._store.max_queue_offset(header.topic, header.queue_id)  # it may have grown meanwhile
        is_behind_all = result.next_offset >= end
        if result.status is GetStatus.NO_MATCHED_MESSAGE and is_behind_all:
            pull.queue_offset = result.next_offset
            if self._clock.monotonic_ms() < pull.deadline_ms and self._hold.hold(pull):
                return
        self._send(pull, result)

    def _wait(self, pull: AskedPull, now_ms: int) -> bool:
        """Hold a pull, if it may wait and there is room."""
        header = pull.header
        wait_ms = min(header.suspend_timeout_ms, SUSPEND_MS_MAX)
        if self._short_polling_ms is not None:
            wait_ms = self._short_polling_ms
        if not header.sys_flag & PullFlag.SUSPEND or wait_ms <= 0:
            return False
        if self._is_told_of_reset(pull):  # it came while the pull was being read for
            return True
        pull.deadline_ms = now_ms + wait_ms
        return self._hold.hold(pull)

    def _send(self, pull: AskedPull, result: GetResult) -> None:
        header = pull.header
        self._offsets.note_pulled(header.consumer_group, header.topic, header.queue_id, result.next_offset)
        where = 0, result.next_offset, result.min_offset, result.max_offset
        if result.status is GetStatus.FOUND:
            self._rates.found.total += 1
            self._rates.given.total += len(result.sizes)
            size = sum(result.sizes)
            pull.session.send(b"".join((_FOUND.encode(pull.command, where, size), *result.runs)))
            return
        self._rates.missed.total += 1
        answer = fields(PullResponseHeader(*where))
        pull.session.send(response(pull.command, _code(pull, result), result.status.name, answer))


def _code(pull: AskedPull, result: GetResult) -> ResponseCode:
    """Give the response code of a read; of an empty queue the first offset is right, and any other is not."""
    if result.status in _EMPTY and pull.header.queue_offset == 0:
        return ResponseCode.PULL_NOT_FOUND
    return CODES[result.status]
