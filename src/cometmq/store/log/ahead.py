"""Making the next thing in a thread before it is needed."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Makes the next of a row of things, each of which belongs to an offset.

    Args:
        make: makes the thing for an offset, in any thread; raises OSError.
        drop: lets go of a thing, in any thread.
        name: what the thread is called.
    """

    def __init__(self, make: Callable[[int], T], drop: Callable[[T], None], name: str) -> None:
        self._make = make
        self._drop = drop
        self._thread = ThreadPoolExecutor(1, f"cometmq-{name}")
        self._next: tuple[int, Future[T]] | None = None

    def begin(self, offset: int) -> None:
        """Make the thing for ``offset`` meanwhile; one that was made for another is dropped."""
        if self._next is None or self._next[0] != offset:
            self._drop_next()
            self._next = offset, self._thread.submit(self._make, offset)

    def take(self, offset: int) -> T:
        """Give the thing for ``offset``, made by now or else here. Raises OSError."""
        if self._next is not None and self._next[0] == offset:
            (_, future), self._next = self._next, None
            if not future.cancel() and future.exception() is None:
                return future.result()
        return self._make(offset)  # what kept the thread from it may be over

    def drop(self, thing: T) -> None:
        """Let go of what was taken, in the thread."""
        self._thread.submit(self._drop, thing)

    def close(self) -> None:
        """Drop what was made and not taken; end the thread."""
        self._drop_next()
        self._thread.shutdown()

    def _drop_next(self) -> None:
        if self._next is not None:
            (_, future), self._next = self._next, None
            if not future.cancel():
                future.add_done_callback(self._drop_made)

    def _drop_made(self, future: "Future[T]") -> None:
        if future.exception() is None:
            self._drop(future.result())
