"""Prepare the next item of a series (a file, a window) in a thread before it is needed."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """Creates the next item of a series, in which each belongs to an offset.

    Args:
        make: creates the item for an offset, in any thread; raises OSError.
        drop: releases an item, in any thread.
        name: name of the thread.
    """

    def __init__(self, make: Callable[[int], T], drop: Callable[[T], None], name: str) -> None:
        self._make = make
        self._drop = drop
        self._thread = ThreadPoolExecutor(1, f"cometmq-{name}")
        self._next: tuple[int, Future[T]] | None = None

    def begin(self, offset: int) -> None:
        """Start to create the item for ``offset``; one created for another offset is dropped."""
        if self._next is None or self._next[0] != offset:
            self._drop_next()
            self._next = offset, self._thread.submit(self._make, offset)

    def take(self, offset: int) -> T:
        """Return the item for ``offset``, created in the thread or else here. Raises OSError."""
        if self._next is not None and self._next[0] == offset:
            (_, future), self._next = self._next, None
            if not future.cancel() and future.exception() is None:
                return future.result()
        return self._make(offset)  # where the thread failed, this may succeed

    def drop(self, item: T) -> None:
        """Release an item that was taken, in the thread."""
        self._thread.submit(self._drop, item)

    def close(self) -> None:
        """Drop an item that was not taken; end the thread."""
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
