"""What visitors may cost: work in a thread, one thing at a time; exports and forms, a few at a time."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

from cometmq.errors import CometMQError
from cometmq.io import memory

AnswerT = TypeVar("AnswerT")

FORMS_BYTES_MAX: Final = 64 * 1024 * 1024
"""Most bytes of all forms that are arriving."""
GIVES_WAY_S: Final = 2.0
"""How long, in seconds, an export may wait for its reader while others need its place."""
TRIM_S: Final = 5
"""How long, in seconds, after an export or a form the memory that is free again is returned to the system."""


class Busy(CometMQError):
    """The console does as much as it may at the moment; the same request may succeed later."""

    retriable = True


class Export(Protocol):
    """An export that runs."""

    @property
    def unread_s(self) -> float:
        """How long, in seconds, it has waited for its reader; 0 while it does not."""
        ...

    def give_way(self) -> None:
        """End soon, in the middle."""
        ...


class Workload:
    """Keeps what costs much from holding up other visitors.

    Args:
        exports_max: most exports that run at a time.
    """

    def __init__(self, exports_max: int) -> None:
        self._exports_max = exports_max
        self._exports: set[Export] = set()
        self._form_bytes = 0
        self._turn = asyncio.Semaphore(1)
        self._trim: asyncio.TimerHandle | None = None

    async def off_loop(self, function: Callable[[], AnswerT]) -> AnswerT:
        """Call a function in a thread, and no other meanwhile: several would leave the loop less time.

        Who is cancelled waits until the thread is done with it, which nothing can stop.
        """
        async with self._turn:
            call = asyncio.create_task(asyncio.to_thread(function))
            try:
                return await asyncio.shield(call)
            finally:
                await asyncio.wait([call])

    @contextmanager
    def export(self, export: Export) -> Iterator[None]:
        """Count an export while it runs.

        If as many run as may, the one whose reader has read nothing for longest gives way. Raises Busy if
        none has waited for long.
        """
        if len(self._exports) >= self._exports_max:
            self._make_room()
        self._exports.add(export)
        try:
            yield
        finally:
            self._exports.discard(export)
            self._trim_soon()

    @contextmanager
    def form(self) -> Iterator[Callable[[int], None]]:
        """Count the bytes of a form while it arrives: call the result with how many have come.

        That raises Busy if there is no room for them.
        """
        taken = 0

        def take_room(size: int) -> None:
            nonlocal taken
            if self._form_bytes + size > FORMS_BYTES_MAX:
                raise Busy(f"{self._form_bytes} bytes of forms are arriving: send it again in a moment")
            self._form_bytes += size
            taken += size

        try:
            yield take_room
        finally:
            self._form_bytes -= taken
            self._trim_soon()

    def _make_room(self) -> None:
        slowest = max(self._exports, key=lambda export: export.unread_s)
        if slowest.unread_s < GIVES_WAY_S:
            raise Busy(
                f"too many exports run: {self._exports_max} may at a time (--exports-max), "
                "try again when one has ended"
            )
        self._exports.remove(slowest)
        slowest.give_way()

    def _trim_soon(self) -> None:
        """Return free memory in a while, once for all that has ended until then."""
        if self._trim is None:
            self._trim = asyncio.get_running_loop().call_later(TRIM_S, self._trim_now)

    def _trim_now(self) -> None:
        self._trim = None
        memory.trim_heap()
