"""Readings: reads of the store as generators, which do no I/O themselves.

To load a page that is not in memory takes milliseconds, and must not block the loop that owns the store. So a
read is a *reading*: a generator that yields a step (which bytes it needs), is sent the step's result, and
returns the answer. The generator runs only in the owner's thread, so it may use everything in the store; a
step only reads files or computes, and can run in any thread::

    owner's thread   reading ─► step, ready: yes ─► reading ─► step, ready: no ┐        ┌► reading ─► answer
    another thread                                                             └► fetch ┘

``run`` runs a whole reading in the calling thread, and blocks.
"""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from cometmq.io.files import File
from cometmq.io.open_files import OpenFiles
from cometmq.message import Buffer

AnswerT = TypeVar("AnswerT")

Stretch: TypeAlias = tuple[int, int]
"""Bytes of a file: position and size."""

GAP_MAX = 4096
"""Stretches no further apart than this many bytes are read by one system call."""


class ReadStep(NamedTuple):
    """A step that reads stretches of a file; its result is None if the file is gone."""

    files: OpenFiles
    path: Path
    stretches: list[Stretch]

    def ready(self) -> list[Buffer] | None:
        """Return the stretches if all are in memory, else None."""
        return _read(self.files.get(self.path).read_ready, self.stretches)

    def fetch(self) -> list[Buffer] | None:
        """Read the stretches from the disk. Safe from any thread. Raises OSError."""
        try:
            with self.files.held(self.path) as file:
                return _read(file.read, self.stretches)
        except FileNotFoundError:
            return None


class FileStep(NamedTuple):
    """A step that calls a function with an open file; its result is None if the file is gone."""

    files: OpenFiles
    path: Path
    function: Callable[[File], Any]

    def ready(self) -> Any:
        """Return None: which bytes the function needs is not known."""
        return None

    def fetch(self) -> Any:
        """Call the function, which may read from the disk. Safe from any thread. Raises OSError."""
        try:
            with self.files.held(self.path) as file:
                return self.function(file)
        except FileNotFoundError:
            return None


class ThreadStep(NamedTuple):
    """A step that calls a function of values that do not change, in a thread: it would block the loop."""

    function: Callable[[], Any]

    def ready(self) -> Any:
        """Return None: the function was not called yet."""
        return None

    def fetch(self) -> Any:
        """Call the function. Safe from any thread."""
        return self.function()


PAUSE = ThreadStep(tuple)
"""A step that yields to the loop."""

Step: TypeAlias = ReadStep | FileStep | ThreadStep
Reading: TypeAlias = Generator[Step, Any, AnswerT]


class Run(Generic[AnswerT]):
    """A reading in progress.

    Attributes:
        answer: the answer, once ``go_on`` has returned True.
        step: the step to fetch before that.
    """

    __slots__ = ("_reading", "answer", "step")
    answer: AnswerT
    step: Step

    def __init__(self, reading: Reading[AnswerT]) -> None:
        self._reading = reading

    def go_on(self, fetched: Any = None) -> bool:
        """Run up to the next step that needs a fetch; return whether the answer is complete.

        Raises what the reading raises.

        Args:
            fetched: the result of ``step``; none at the first call.
        """
        try:
            while True:
                self.step = self._reading.send(fetched)
                if (fetched := self.step.ready()) is None:
                    return False
        except StopIteration as stop:
            self.answer = stop.value
            return True

    def close(self) -> None:
        """Abandon the reading: it is not continued."""
        self._reading.close()


def run(reading: Reading[AnswerT]) -> AnswerT:
    """Run a reading to its end, blocking on the disk where needed; return the answer. Raises OSError."""
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
    """Read stretches, near ones by one call; None if ``read`` returns None for any."""
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
