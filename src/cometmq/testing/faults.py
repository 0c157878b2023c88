"""Planned failures: the next requests of a kind are refused, ignored, or lose their connection."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cometmq.net.server import RequestHandler, Session
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import ONEWAY_FLAG, Command, response

REMARK: Final = "refused, as the test asked for"
SENDS: Final = frozenset(
    {RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE}
)
TOPIC_FIELDS: Final = ("topic", "b")
"""Names of the topic in headers; ``b`` in SEND_MESSAGE_V2."""


class Fault(Enum):
    """The failure of a request."""

    REFUSE = "it is answered with an error, and not executed"
    IGNORE = "it is not executed, and never answered"
    CUT = "it is not executed, and its connection is closed"
    LOSE_ANSWER = "it is executed, but its connection is closed instead of an answer"


@dataclass(slots=True)
class _Plan:
    """The requests that shall fail, and how.

    Attributes:
        codes: codes of the requests; empty for all.
        topic: the topic that they name; None for any.
        times: number of requests that shall still fail.
    """

    codes: frozenset[int]
    topic: str | None
    times: int
    fault: Fault
    answer: int

    def is_about(self, command: Command) -> bool:
        """Return whether a command shall fail by this plan."""
        if self.codes and command.code not in self.codes:
            return False
        return self.topic is None or self.topic in map(command.ext_fields.get, TOPIC_FIELDS)


class Faults:
    """A request handler that lets planned requests fail and passes others on (``net.server.RequestHandler``).

    Attributes:
        sound: the handler of requests that do not fail.
    """

    sound: RequestHandler

    def __init__(self) -> None:
        self._plans: list[_Plan] = []

    @property
    def pending(self) -> int:
        """Number of planned failures that have not happened yet."""
        return sum(plan.times for plan in self._plans)

    def plan(self, codes: Iterable[int], topic: str | None, times: int, fault: Fault, answer: int) -> None:
        """Plan the failure of the next requests that have one of ``codes`` (if any) and name ``topic``."""
        if times > 0:
            self._plans.append(_Plan(frozenset(codes), topic, times, fault, answer))

    def clear(self) -> None:
        """Remove all plans."""
        self._plans.clear()

    def handle(self, session: Session, commands: list[Command]) -> None:
        """Pass requests on in their order, except the planned failures."""
        sound: list[Command] = []
        for command in commands:
            plan = self._take(command) if self._plans and not command.is_response else None
            if plan is None:
                sound.append(command)
                continue
            if plan.fault is Fault.LOSE_ANSWER:
                command.flag |= ONEWAY_FLAG  # so that it is done and not answered
                sound.append(command)
            self._pass_on(session, sound)
            sound = []
            self._fail(session, command, plan)
            if session.closed:
                return
        self._pass_on(session, sound)

    def closed(self, session: Session) -> None:
        """Pass on that a session's connection is closed."""
        self.sound.closed(session)

    def _take(self, command: Command) -> _Plan | None:
        """Return the first plan for a command, and count it down; None if there is none."""
        plan = next((plan for plan in self._plans if plan.is_about(command)), None)
        if plan is not None:
            plan.times -= 1
            self._plans = [plan for plan in self._plans if plan.times > 0]
        return plan

    def _pass_on(self, session: Session, commands: list[Command]) -> None:
        if commands:
            self.sound.handle(session, commands)

    def _fail(self, session: Session, command: Command, plan: _Plan) -> None:
        if plan.fault is Fault.REFUSE and not command.is_oneway:
            session.send(response(command, plan.answer, REMARK))
        elif plan.fault in (Fault.CUT, Fault.LOSE_ANSWER):
            session.abort(f"as the test asked for: {plan.fault.value}")
