"""The rounds in which a job fills its target: each brings one stretch of the log, and is there whole or not.

::

    target/_export/00000000000000000000.done.json    what the round did that began at this CommitLog offset
    target/_export/00000000008589934592.plan.json    what the round under way brings, and how

Before the first task of a round its plan is written, unless there is one; from then on whoever takes the
target up carries out this plan. The plan alone settles the names and the content of the round's files. So a
task that is repeated, a run that was killed and a second job at the same time all make the same files, each
whole (see ``targets``). The round is over once one small file is there that says what it did. Of the target
counts what lies before the end of the last such round. Nothing is renamed or copied, so object stores can do
it as disks can.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Generic, TypeVar

import msgspec
from pyspark.sql import SparkSession

from cometmq.format.layout import offset_name
from cometmq.spark.jobs.export.targets import JobTarget

CORE_BYTES: Final = 1024 * 1024 * 1024
"""So much of the log a round has for each core."""
CORES_MIN: Final = 8
PLAN: Final = ".plan.json"
DONE: Final = ".done.json"


class RoundPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a round brings: the records that begin from one CommitLog offset on and before another."""

    begin: int
    end: int


class RoundDone(msgspec.Struct, frozen=True, kw_only=True):
    """What a round did, and the CommitLog offset at which the next one begins."""

    begin: int
    next: int


P = TypeVar("P", bound=RoundPlan)
D = TypeVar("D", bound=RoundDone)


class DoneRounds(Generic[D]):
    """The rounds of a target that are over; of the last one it is known what it did.

    Args:
        state: the folder of the job's own.
        kind: what is written of a round.
    """

    def __init__(self, target: JobTarget, state: str, kind: type[D]) -> None:
        self._target = target
        self._state = state
        self._kind = kind

    def last(self) -> D | None:
        """Return what the last round did; None if there was none."""
        while (name := max(self._names(), default=None)) is not None:
            with suppress(FileNotFoundError):  # another job has come further meanwhile
                return msgspec.json.decode(self._target.load(f"{self._state}/{name}"), type=self._kind)
        return None

    def next_begin(self) -> int:
        """Return the CommitLog offset at which the next round begins."""
        last = self.last()
        return 0 if last is None else last.next

    def add(self, done: D) -> None:
        """Write what a round did: it is over then. What is known of older ones is removed."""
        self._target.create(f"{self._state}/{offset_name(done.begin)}{DONE}", msgspec.json.encode(done))
        for name in self._names():
            if name < offset_name(done.begin):
                self._target.remove(f"{self._state}/{name}")

    def _names(self) -> list[str]:
        return [name for name in self._target.names(self._state) if name.endswith(DONE)]


def rounds(
    target: JobTarget,
    state: str,
    kind: type[P],
    next_begin: Callable[[], int],
    plan: Callable[[int], P | None],
) -> Iterator[P]:
    """Go through the plans of the rounds to carry out: first of one that was not finished, then of new ones.

    A round must be over, and so ``next_begin`` have changed, when the one after it is asked for.

    Args:
        next_begin: returns where the round after the last one that is over begins.
        plan: returns a plan for what begins there; None if there is nothing new.
    """
    while (planned := _pinned(target, state, kind, next_begin, plan)) is not None:
        yield planned
        target.remove(_plan_name(state, planned.begin))


def round_end(begin: int, cores: int) -> int:
    """Return the CommitLog offset at which a round ends that begins at ``begin``, in a log without end."""
    return (begin // CORE_BYTES + max(cores, CORES_MIN)) * CORE_BYTES


def cores(spark: SparkSession) -> int:
    """Return how many tasks run at once."""
    return spark.sparkContext.defaultParallelism


def _pinned(
    target: JobTarget,
    state: str,
    kind: type[P],
    next_begin: Callable[[], int],
    plan: Callable[[int], P | None],
) -> P | None:
    while True:
        begin = next_begin()
        name = _plan_name(state, begin)
        if not target.exists(name):
            planned = plan(begin)
            if planned is None:
                return None
            target.create(name, msgspec.json.encode(planned))
        if next_begin() == begin:  # a second job may have finished this round since it was looked up
            with suppress(FileNotFoundError):
                return msgspec.json.decode(target.load(name), type=kind)
        else:
            target.remove(name)


def _plan_name(state: str, begin: int) -> str:
    return f"{state}/{offset_name(begin)}{PLAN}"
