"""Readings: what it takes to answer a question from the store, step by step.

A page that is not in memory costs milliseconds, and must not hold up the loop that owns the store. So a
question is put as a *reading*: a generator that yields the next step (which bytes it needs), is sent what
the step gave, and returns the answer. The generator runs in the owner's thread and nowhere else, so it may
look at everything in the store; a step touches files only, and can be done in any thread::

    owner's thread   reading ─► step, ready: yes ─► reading ─► step, ready: no ┐        ┌► reading ─► answer
    another thread                                                             └► fetch ┘

``run`` is for those who may wait: it does all of it where it is called.
"""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from cometmq.io.files import File
from cometmq.io.open_files import OpenFiles
from cometmq.message import Buffer

AnswerT = TypeVar("AnswerT")

Stretch: TypeAlias = tuple[int, int]
"""Bytes of a file: their position and their number."""

GAP_MAX = 4096
"""So many bytes between two stretches are rather read and thrown away than cost a system call more."""


class ReadStep(NamedTuple):
    """A step that gives some stretches of a file, or None if that is no longer there."""

    files: OpenFiles
    path: Path
    stretches: list[Stretch]

    def ready(self) -> list[Buffer] | None:
        """Give them if all are in memory, or None."""
        return _read(self.files.get(self.path).read_ready, self.stretches)

    def fetch(self) -> list[Buffer] | None:
        """Give them, and wait for the disk. Safe from any thread. Raises OSError."""
        try:
            with self.files.held(self.path) as file:
                return _read(file.read, self.stretches)
        except FileNotFoundError:
            return None


class Look(NamedTuple):
    """A step that gives what a function finds in a file, None where that is no longer there."""

    files: OpenFiles
    path: Path
    look: Callable[[File], Any]

    def ready(self) -> Any:
        """Give None: what it will look at cannot be told."""
        return None

    def fetch(self) -> Any:
        """Look, and wait for the disk. Safe from any thread. Raises OSError."""
        try:
            with self.files.held(self.path) as file:
                return self.look(file)
        except FileNotFoundError:
            return None


class InThread(NamedTuple):
    """A step that gives what a function makes of values that nobody changes: it would hold up the loop."""

    work: Callable[[], Any]

    def ready(self) -> Any:
        """Return None: it is not made yet."""
        return None

    def fetch(self) -> Any:
        """Make it. Safe from any thread."""
        return self.work()


PAUSE = InThread(tuple)
"""A step that lets the loop go on before the reading does."""

Step: TypeAlias = ReadStep | Look | InThread
Reading: TypeAlias = Generator[Step, Any, AnswerT]


class Run(Generic[AnswerT]):
    """A reading on its way.

    Attributes:
        answer: once ``go_on`` said that it is there.
        step: what must be fetched until then.
    """

    __slots__ = ("_reading", "answer", "step")
    answer: AnswerT
    step: Step

    def __init__(self, reading: Reading[AnswerT]) -> None:
        self._reading = reading

    def go_on(self, fetched: Any = None) -> bool:
        """Read as far as memory goes; tell whether the answer is there. Raises what the reading raises.

        Args:
            fetched: what ``step`` gave, but for the first time.
        """
        try:
            while True:
                self.step = self._reading.send(fetched)
                if (fetched := self.step.ready()) is None:
                    return False
        except StopIteration as stop:
            self.answer = stop.value
            return True


def run(reading: Reading[AnswerT]) -> AnswerT:
    """Read, wait for the disk where that must be, and give the answer. Raises OSError."""
    fetched = None
    try:
        while True:
            step = reading.send(fetched)
            fetched = step.ready()
            if fetched is None:
                fetched = step.fetch()
    except StopIteration as stop:
        answer: AnswerT = stop.value
        return answer


def _read(read: Callable[[int, int], Buffer | None], stretches: Sequence[Stretch]) -> list[Buffer] | None:
    """Read stretches, near ones together; None if ``read`` gives None for any."""
    if len(stretches) == 1:
        data = read(*stretches[0])
        return None if data is None else [data]
    found: list[Buffer] = []
    at = 0
    while at < len(stretches):
        begin, size = stretches[at]
        end, first, at = begin + size, at, at + 1
        while at < len(stretches) and 0 <= stretches[at][0] - end <= GAP_MAX:
            end = stretches[at][0] + stretches[at][1]
            at += 1
        data = read(begin, end - begin)
        if data is None:
            return None
        if at == first + 1:
            found.append(data)
        else:
            view = memoryview(data)
            found += [view[start - begin : start - begin + size] for start, size in stretches[first:at]]
    return found
