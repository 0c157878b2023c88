"""A random history of consumer groups: what happens, and after how long."""

import random
from enum import Enum
from typing import Final, NamedTuple


class Kind(Enum):
    """What can happen."""

    JOIN = "a member joins"
    LEAVE = "a member leaves"
    CRASH = "a member is killed"
    MORE_QUEUES = "the topics get more queues"
    FEWER_QUEUES = "queues are taken away from the topics"
    RESTART = "the broker is restarted"
    BROKER_CRASH = "the broker is killed and started"


WEIGHTS: Final = {
    Kind.JOIN: 4,
    Kind.LEAVE: 3,
    Kind.CRASH: 2,
    Kind.MORE_QUEUES: 1,
    Kind.FEWER_QUEUES: 1,
    Kind.RESTART: 1,
    Kind.BROKER_CRASH: 1,
}
CHANGE: Final = {Kind.JOIN: 1, Kind.LEAVE: -1, Kind.CRASH: -1}
QUEUES_CHANGE: Final = {Kind.MORE_QUEUES: 4, Kind.FEWER_QUEUES: -4}
"""By how many queues a topic grows or shrinks."""


class Step(NamedTuple):
    """Something happens after a pause; ``choice`` says to which member."""

    pause_s: float
    kind: Kind
    choice: int


class Size(NamedTuple):
    """How large a history is: members at first and at most, queues at first, steps, seconds between these."""

    members: int = 8
    queues: int = 64
    steps: int = 8
    pause_s_max: float = 1.0

    @property
    def queues_max(self) -> int:
        """How many queues a topic may get."""
        return self.queues + self.steps * QUEUES_CHANGE[Kind.MORE_QUEUES]


def draw(seed: int, size: Size) -> list[Step]:
    """Return the history of a seed: there is always a member and a queue, and no more members than may be."""
    dice, members, queues = random.Random(seed), size.members, size.queues
    steps: list[Step] = []
    while len(steps) < size.steps:
        kind = dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        members_then, queues_then = members + CHANGE.get(kind, 0), queues + QUEUES_CHANGE.get(kind, 0)
        if not 1 <= members_then <= size.members or queues_then < 1:
            continue
        steps.append(Step(dice.uniform(0, size.pause_s_max), kind, dice.randrange(members)))
        members, queues = members_then, queues_then
    return steps
