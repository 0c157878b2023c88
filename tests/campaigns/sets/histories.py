"""A random history of a set of brokers: which lines are cut, which brokers killed or stopped."""

import random
from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """What can happen; ``one`` and ``other`` are numbers of hosts."""

    CUT = "{one} and {other} hear nothing of each other"
    DEAFEN = "{other} hears nothing of {one}"
    ISOLATE = "{one} is cut off from all others"
    KILL = "{one} is killed, and started again"
    PAUSE = "{one} is stopped for a while (SIGSTOP)"
    HEAL = "all lines are whole again"


WEIGHTS: Final = {
    Kind.CUT: 4,
    Kind.DEAFEN: 2,
    Kind.ISOLATE: 3,
    Kind.KILL: 1,
    Kind.PAUSE: 2,
    Kind.HEAL: 2,
}


class Step(NamedTuple):
    """Something happens after a pause.

    Attributes:
        one: the host that it is about; the controller is never killed or stopped.
        other: the other end of a line.
    """

    pause_s: float
    kind: Kind
    one: int
    other: int

    def text(self, names: list[str]) -> str:
        """Describe the step."""
        return f"{self.pause_s:.1f} s, {self.kind.value.format(one=names[self.one], other=names[self.other])}"


class Size(NamedTuple):
    """How large a history is: brokers, beside a controller; steps; the longest pause before one."""

    brokers: int = 3
    steps: int = 4
    pause_s_max: float = 5.0


def draw(seed: int, size: Size) -> list[Step]:
    """Draw the history of a seed. Hosts are numbered: brokers from 0 on, then the controller."""
    dice = random.Random(seed)
    steps: list[Step] = []
    for _ in range(size.steps):
        kind = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        one = dice.randrange(size.brokers)
        other = dice.choice([host for host in range(size.brokers + 1) if host != one])
        if kind is Kind.DEAFEN and dice.random() < 0.5:
            one, other = other, one
        steps.append(Step(dice.uniform(0, size.pause_s_max), kind, one, other))
    return steps
