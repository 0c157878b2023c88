"""Failures on demand: the next requests of a kind are refused, ignored, or cost their connection."""

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
"""What headers call the topic; ``b`` in SEND_MESSAGE_V2."""


class Fault(Enum):
    """What goes wrong with a request."""

    REFUSE = "it is answered with an error, and not done"
    IGNORE = "it is not done, and never answered"
    CUT = "it is not done, and its connection is cut"
    LOSE_ANSWER = "it is done, but its connection is cut instead of an answer"


@dataclass(slots=True)
class _Plan:
    """What is to fail, and how.

    Attributes:
        codes: the requests that it is about; empty for all.
        topic: the topic that they name; None for any.
        times: how many more are to fail.
    """

    codes: frozenset[int]
    topic: str | None
    times: int
    fault: Fault
    answer: int

    def is_about(self, command: Command) -> bool:
        """Tell whether this is to fail."""
        if self.codes and command.code not in self.codes:
            return False
        return self.topic is None or self.topic in map(command.ext_fields.get, TOPIC_FIELDS)


class Faults:
    """Stands between the connections and what answers them (a ``net.server.RequestHandler``).

    Attributes:
        sound: answers what is not to fail.
    """

    sound: RequestHandler

    def __init__(self) -> None:
        self._plans: list[_Plan] = []

    @property
    def pending(self) -> int:
        """How many failures have not happened yet."""
        return sum(plan.times for plan in self._plans)

    def plan(self, codes: Iterable[int], topic: str | None, times: int, fault: Fault, answer: int) -> None:
        """Let the next requests fail that have one of ``codes`` (if there are any) and name ``topic``."""
        if times > 0:
            self._plans.append(_Plan(frozenset(codes), topic, times, fault, answer))

    def clear(self) -> None:
        """Let nothing fail any more."""
        self._plans.clear()

    def handle(self, session: Session, commands: list[Command]) -> None:
        """Hand on what is sound, in its order, and let the rest fail."""
        sound: list[Command] = []
        for command in commands:
            plan = self._take(command) if self._plans and not command.is_response else None
            if plan is None:
                sound.append(command)
                continue
            if plan.fault is Fault.LOSE_ANSWER:
                command.flag |= ONEWAY_FLAG  # so that it is done and not answered
                sound.append(command)
            self._hand_on(session, sound)
            sound = []
            self._fail(session, command, plan)
            if session.closed:
                return
        self._hand_on(session, sound)

    def closed(self, session: Session) -> None:
        """Forget a session: its connection is gone."""
        self.sound.closed(session)

    def _take(self, command: Command) -> _Plan | None:
        """Give the first plan that is about a command, and count it."""
        plan = next((plan for plan in self._plans if plan.is_about(command)), None)
        if plan is not None:
            plan.times -= 1
            self._plans = [plan for plan in self._plans if plan.times > 0]
        return plan

    def _hand_on(self, session: Session, commands: list[Command]) -> None:
        if commands:
            self.sound.handle(session, commands)

    def _fail(self, session: Session, command: Command, plan: _Plan) -> None:
        if plan.fault is Fault.REFUSE and not command.is_oneway:
            session.send(response(command, plan.answer, REMARK))
        elif plan.fault in (Fault.CUT, Fault.LOSE_ANSWER):
            session.abort(f"as the test asked for: {plan.fault.value}")
