"""POP_MESSAGE: hand out messages of a topic to a member of a group, for a limited time.

A pop is checked, visits its queues (``visits.py``), and is answered with what it found::

    command ─► checked ─► visits its queues ─► found: answered
                 │  ▲                     └──► nothing: held ─► a message, the deadline ─┐
                 │  └────────────────────────────────────────────────────────────────────┘
                 └► refused

The answer to a refused pop has the header of one that found nothing: clients read it first.
(RocketMQ: PopMessageProcessor.java.)
"""

from functools import partial
from typing import Final

from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import Reads
from cometmq.broker.refused import code_of
from cometmq.broker.requests.pop.checks import PopChecks
from cometmq.broker.requests.pop.disk_answers import DiskAnswers
from cometmq.broker.requests.pop.in_order import OrderedPops
from cometmq.broker.requests.pop.popped import Popped
from cometmq.broker.requests.pop.visits import Visits
from cometmq.broker.requests.pop.waiting import HeldRequest, Waiting
from cometmq.broker.state.rates import Rates
from cometmq.errors import CometMQError
from cometmq.io.clock import Clock
from cometmq.net.server import Session
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import PopHeader, PopResponseHeader, fields

NOTHING: Final = "NO_MESSAGE_IN_QUEUE"
"""The remark of an answer without messages."""
NOTHING_FIELDS: Final = fields(PopResponseHeader(0, 0, 0, 0))
"""The header of an answer without messages to a pop or a peek."""


class Pops:
    """Answers pops, and holds those that wait."""

    def __init__(
        self,
        checks: PopChecks,
        ordered: OrderedPops,
        visits: Visits,
        reads: Reads,
        waiting: Waiting,
        answers: DiskAnswers,
        rates: Rates,
        clock: Clock,
    ) -> None:
        self._checks = checks
        self._ordered = ordered
        self._visits = visits
        self._reads = reads
        self._waiting = waiting
        self._answers = answers
        self._rates = rates
        self._clock = clock

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {RequestCode.POP_MESSAGE: self.handle}

    def handle(self, session: Session, command: Command, header: PopHeader) -> None:
        """POP_MESSAGE; one-way it hands out nothing, since nobody would get the messages."""
        if command.is_oneway:
            return
        deadline_ms = self._waiting.deadline_ms(header.born_time, header.poll_time)
        self._serve(HeldRequest(session, command, header, deadline_ms, self._serve))

    def _serve(self, pop: HeldRequest) -> None:
        """Check a pop, visit its queues, and answer or hold it."""
        session, header = pop.owner, pop.header
        if session.congested:
            session.when_drained(partial(self._serve, pop), pop.command)
            return
        try:
            now_ms = self._clock.now_ms()
            checked = self._checks.check_pop(header, now_ms)
            pop.tags_codes = checked.wanted.tags_codes
            popped = self._visits.begin(checked.topic, header, now_ms)
            may_wait = partial(self._waiting.may_wait, pop)
            visit = self._visits.pop(popped, header, checked.wanted, may_wait)
            answer = self._reads.answer(session, pop.command, visit, partial(self._end, pop))
        except CometMQError as error:
            answer = response(pop.command, code_of(error), str(error), NOTHING_FIELDS)
        if answer is not None:
            session.send(answer)

    def _end(self, pop: HeldRequest, popped: Popped) -> Command | None:
        """Answer a pop, or hold it if it has found nothing and may wait."""
        answer = self._answered_or_held(pop, popped)
        if popped.in_order is not None:
            self._ordered.wake_later(popped.in_order)
        return answer

    def _answered_or_held(self, pop: HeldRequest, popped: Popped) -> Command | None:
        if popped.count:
            self._rates.found.total += 1
            self._rates.delivered.total += popped.count
            answer = popped.answer(pop.command)
            self._answers.send_popped(pop.owner, pop.command, answer, pop.header.consumer_group)
            if popped.rest > 0:
                self._waiting.wake(*pop.place)
            return None
        self._rates.missed.total += 1
        if popped.refusal is not None:
            error = popped.refusal
            return response(pop.command, code_of(error), str(error), NOTHING_FIELDS)
        code = ResponseCode.POLLING_TIMEOUT
        if self._waiting.may_wait(pop):
            if self._waiting.hold(self._waiting.pops, pop):
                return None
            code = ResponseCode.POLLING_FULL
        return response(pop.command, code, NOTHING, popped.nothing_fields())
