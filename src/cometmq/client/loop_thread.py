"""The thread with an event loop that the blocking clients of a process share.

It starts when the first client is opened and ends when the last one is closed. Calls that still wait then
fail, as do later ones and those in a forked process: else they would wait for ever.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Final, TypeVar

from cometmq.errors import NetworkError

CANCEL_S_MAX: Final = 1.0
"""How long the end of the loop waits for the tasks that it cancels."""
CLOSED: Final = "this client is not open: use it within its with statement"
FORKED: Final = "this client was opened before the process was forked: open one in each process"
IN_LOOP: Final = (
    "this would hold up the loop that serves all blocking clients: call them from a plain handler, not from "
    "an async one, and from no callback"
)

_T = TypeVar("_T")


class LoopThread:
    """An event loop and its thread.

    Attributes:
        users: how many clients are open.
        ended: why calls are refused; None while they are accepted.
    """

    def __init__(self) -> None:
        self.users = 0
        self.ended: str | None = None
        self._calls: deque[_Call] = deque()
        self._is_woken = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cometmq", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Run a coroutine in the loop and return its result; an interrupt of the caller (Ctrl-C) cancels it.

        Raises:
            NetworkError: the last client was closed, before or meanwhile.
            RuntimeError: called in the loop itself, which would wait for itself.
        """
        if self.is_current():
            work.close()
            raise RuntimeError(IN_LOOP)
        call = _Call(work)
        self._calls.append(call)
        if self.ended is not None:
            self._refuse_calls()  # the loop does so no more
        elif not self._is_woken:  # else the loop is about to read the calls
            self._is_woken = True
            self._schedule(self._start_calls)
        try:
            call.done.acquire()
        except BaseException:
            self._schedule(call.cancel)
            raise
        try:
            if isinstance(call.error, asyncio.CancelledError) and self.ended is not None:
                raise NetworkError(self.ended)
            if call.error is not None:
                raise call.error
            result: _T = call.result
            return result
        finally:
            del call  # the error's traceback would hold it, and it the error

    def call(self, function: Callable[[], _T]) -> _T:
        """Call a function in the loop and return its result; in the loop itself it is called directly."""

        async def work() -> _T:
            return function()

        if self.is_current():
            return function()
        return self.run(work())

    def is_current(self) -> bool:
        """Return whether the caller runs in this loop."""
        return threading.current_thread() is self._thread

    def end(self) -> None:
        """End the loop; calls that still wait fail."""
        try:
            self.run(self._cancel_all())
        finally:
            self._schedule(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._refuse_calls()

    async def _cancel_all(self) -> None:
        self.ended = CLOSED
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=CANCEL_S_MAX)
        await self._loop.shutdown_default_executor()

    def _schedule(self, action: Callable[[], object]) -> None:
        """Schedule a call in the loop; a closed loop runs nothing, and ``end`` refuses the calls."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action)

    def _start_calls(self) -> None:
        self._is_woken = False
        while self._calls and self.ended is None:
            call = self._calls.popleft()
            call.task = self._loop.create_task(call.run(), context=call.context)

    def _refuse_calls(self) -> None:
        """Refuse all waiting calls; two threads may do so at a time."""
        with suppress(IndexError):
            while True:
                self._calls.popleft().refuse(self.ended or CLOSED)


class _Call:
    """A call that a thread waits for, cheaper than a ``concurrent.futures.Future``.

    Attributes:
        context: the caller's context variables.
        done: locked until there is a result or an error.
    """

    __slots__ = ("_work", "context", "done", "error", "result", "task")

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self.context = copy_context()
        self.done = threading.Lock()
        self.done.acquire()
        self.result: Any = None
        self.error: BaseException | None = None
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Run the coroutine, in the loop."""
        try:
            self.result = await self._work
        except BaseException as error:  # noqa: BLE001 it is raised to the caller, in another thread
            self.error = error
        self.done.release()

    def refuse(self, why: str) -> None:
        """Fail with a NetworkError."""
        self._work.close()
        self.error = NetworkError(why)
        self.done.release()

    def cancel(self) -> None:
        """Cancel the task, in the loop: its caller was interrupted."""
        if self.task is not None:
            self.task.cancel()


class SharedLoop:
    """The one loop thread that all blocking clients of a process use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: LoopThread | None = None

    def acquire(self) -> LoopThread:
        """Return the thread for one more client; the first one starts it."""
        with self._lock:
            if self._current is None:
                self._current = LoopThread()
            self._current.users += 1
            return self._current

    def release(self) -> None:
        """Release the thread for one client; the last one ends it."""
        with self._lock:
            current = self._current
            if current is None:  # its process was forked into this one
                return
            current.users -= 1
            if not current.users:
                self._current = None
                current.end()

    def reset_after_fork(self) -> None:
        """Drop the parent's thread: a forked process does not have it."""
        if self._current is not None:
            self._current.ended = FORKED
        self._lock = threading.Lock()
        self._current = None


SHARED_LOOP: Final = SharedLoop()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=SHARED_LOOP.reset_after_fork)
