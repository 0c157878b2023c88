"""The rounds in which a job fills its target: each adds a range of the log, completely or not at all.

::

    target/_export/00000000000000000000.done.json    the result of the round that began at this offset
    target/_export/00000000008589934592.plan.json    the plan of the round under way

Before the first task of a round its plan is written, unless there is one; from then on every run carries out
this plan. The plan alone determines the names and the content of the round's files. So a repeated task, a run
after a killed one and a second job at the same time all write the same files, each whole (see ``targets``).
The round is over once its result, a small file, is there. Only files before the end of the last finished
round count. Nothing is renamed or copied, so object stores work as disks do.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final, Generic, TypeVar

import msgspec

from cometmq.errors import FormatError
from cometmq.format.layout import offset_name
from cometmq.spark.jobs.export.targets import JobTarget

UNIT_BYTES: Final = 1024 * 1024 * 1024
"""A round ends at a multiple of it."""
UNITS_MIN: Final = 8
UNITS_MAX: Final = 512
"""Of a round: what an export shuffles at once is on the executors' disks."""
SHARE: Final = 8
"""A round is one part in so many of what is left of the log, if that is within the limits."""
PLAN: Final = ".plan.json"
DONE: Final = ".done.json"


class RoundPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The plan of a round: the records that begin at CommitLog offsets from ``begin`` to before ``end``."""

    begin: int
    end: int


class RoundDone(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a round; the next one begins at CommitLog offset ``next``."""

    begin: int
    next: int


R = TypeVar("R")
P = TypeVar("P", bound=RoundPlan)
D = TypeVar("D", bound=RoundDone)


class DoneRounds(Generic[D]):
    """The finished rounds of a target.

    Args:
        state: the job's own folder.
        kind: the type of a round's result.
    """

    def __init__(self, target: JobTarget, state: str, kind: type[D]) -> None:
        self._target = target
        self._state = state
        self._kind = kind

    def last(self) -> D | None:
        """Return the result of the last round; None if there was none."""
        while (name := max(self._names(), default=None)) is not None:
            with suppress(FileNotFoundError):  # another job has finished a later round meanwhile
                return _loaded(self._target, f"{self._state}/{name}", self._kind)
        return None

    def next_begin(self) -> int:
        """Return the CommitLog offset at which the next round begins."""
        last = self.last()
        return 0 if last is None else last.next

    def add(self, done: D) -> None:
        """Write the result of a round, which ends it, and remove those of older ones."""
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
    """Iterate over the plans of the rounds to carry out: an unfinished one first, then new ones.

    A round must be over, and so ``next_begin`` have changed, before the next plan is requested.

    Args:
        next_begin: returns the CommitLog offset behind the last finished round.
        plan: returns a plan for what begins there; None if there is nothing new.
    """
    while (planned := _pinned(target, state, kind, next_begin, plan)) is not None:
        yield planned
        target.remove(_plan_name(state, planned.begin))


def round_end(begin: int, log_end: int) -> int:
    """Return the CommitLog offset at which a round from ``begin`` ends, if the log goes so far."""
    units = min(max((log_end - begin) // UNIT_BYTES // SHARE, UNITS_MIN), UNITS_MAX)
    return (begin // UNIT_BYTES + units) * UNIT_BYTES


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
                return _loaded(target, name, kind)
        else:
            target.remove(name)


def _loaded(target: JobTarget, name: str, kind: type[R]) -> R:
    """Return the content of a file of a job. Raises FormatError, FileNotFoundError."""
    data = target.load(name)
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise FormatError(f"{name}: no job of CometMQ has written this: {error}: give a new target") from None


def _plan_name(state: str, begin: int) -> str:
    return f"{state}/{offset_name(begin)}{PLAN}"
