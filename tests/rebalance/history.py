"""A random history of a consumer group: what happens, and after how long."""

import random
from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """What can happen."""

    JOIN = "a member joins"
    LEAVE = "a member leaves"
    CRASH = "a member is killed"
    MORE_QUEUES = "the topic gets more queues"
    RESTART = "the broker is restarted"
    BROKER_CRASH = "the broker is killed and started"


WEIGHTS: Final = {
    Kind.JOIN: 4,
    Kind.LEAVE: 3,
    Kind.CRASH: 2,
    Kind.MORE_QUEUES: 1,
    Kind.RESTART: 1,
    Kind.BROKER_CRASH: 1,
}


class Step(NamedTuple):
    """Something happens after a pause; ``choice`` says to which member."""

    pause_s: float
    kind: Kind
    choice: int


class Size(NamedTuple):
    """How large a history is: members at a time, queues at first, steps, and seconds between these."""

    members: int = 8
    queues: int = 64
    steps: int = 8
    pause_s_max: float = 2.0

    @property
    def first_members(self) -> int:
        """How many members there are at first."""
        return max(1, self.members // 2)


def draw(seed: int, size: Size) -> list[Step]:
    """Give the history of a seed: it never has no member, nor more than there may be."""
    dice, members = random.Random(seed), size.first_members
    steps: list[Step] = []
    while len(steps) < size.steps:
        kind = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        change = {Kind.JOIN: 1, Kind.LEAVE: -1, Kind.CRASH: -1}.get(kind, 0)
        if not 1 <= members + change <= size.members:
            continue
        steps.append(Step(dice.uniform(0, size.pause_s_max), kind, dice.randrange(members)))
        members += change
    return steps
