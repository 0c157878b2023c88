"""A thread with an event loop, which the blocking clients of a process share.

It is started when the first client is opened and ends with the last. Whoever still waits for something then
gets an error, as does who asks later, or in a process that was forked meanwhile: a thread that waits for an
answer that cannot come would wait for ever.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

from cometmq.errors import NetworkError

CANCEL_S_MAX: Final = 1.0
"""How long the end of the loop waits for what it cancels."""
CLOSED: Final = "this client is not open: use it within its with statement"
FORKED: Final = "this client was opened before the process was forked: open one in each process"
IN_LOOP: Final = (
    "this would hold up the loop that serves all blocking clients: call them from a plain handler, not from "
    "an async one, and from no callback"
)

_T = TypeVar("_T")


class LoopThread:
    """A loop and its thread, from when the first client is opened until the last one is closed.

    Attributes:
        users: how many clients are open.
        ended: why nothing can be done here any more; None while it can.
    """

    def __init__(self) -> None:
        self.users = 0
        self.ended: str | None = None
        self._asked: deque[_Call] = deque()
        self._is_called = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="cometmq", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Give what ``work`` gives, when it is done. An interrupt of the caller, as by Ctrl-C, cancels it.

        Raises:
            NetworkError: the last client was closed, before or meanwhile.
            RuntimeError: called in the loop itself, which would wait for itself.
        """
        if self.is_current():
            work.close()
            raise RuntimeError(IN_LOOP)
        call = _Call(work)
        self._asked.append(call)
        if self.ended is not None:
            self._refuse()  # nobody else will look
        elif not self._is_called:  # else the loop has yet to look, and will find it
            self._is_called = True
            self._tell(self._begin)
        try:
            call.answered.acquire()
        except BaseException:
            self._tell(call.cancel)
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

    def call(self, function: Callable[..., _T], *arguments: Any) -> _T:
        """Give what a function gives, called in the loop; by a handler that runs there, at once."""

        async def work() -> _T:
            return function(*arguments)

        if self.is_current():
            return function(*arguments)
        return self.run(work())

    def is_current(self) -> bool:
        """Tell whether the caller runs in this loop."""
        return threading.current_thread() is self._thread

    def end(self) -> None:
        """End the loop; threads that wait for something get an error."""
        try:
            self.run(self._cancel_all())
        finally:
            self._tell(self._loop.stop)
            self._thread.join()
            self._loop.close()
            self._refuse()

    async def _cancel_all(self) -> None:
        self.ended = CLOSED
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=CANCEL_S_MAX)
        await self._loop.shutdown_default_executor()

    def _tell(self, action: Callable[[], object]) -> None:
        """Let the loop do something; if it was closed in this moment, who closed it sees to the rest."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(action)

    def _begin(self) -> None:
        self._is_called = False
        while self._asked and self.ended is None:
            call = self._asked.popleft()
            call.task = self._loop.create_task(call.answer())

    def _refuse(self) -> None:
        """Answer all that was asked in vain; two threads may do so at a time."""
        with suppress(IndexError):
            while True:
                self._asked.popleft().refuse(self.ended or CLOSED)


class _Call:
    """What a thread waits for: a future that costs less than those of ``concurrent.futures``.

    Attributes:
        answered: locked until there is a result or an error.
    """

    __slots__ = ("_work", "answered", "error", "result", "task")

    def __init__(self, work: Coroutine[Any, Any, Any]) -> None:
        self._work = work
        self.answered = threading.Lock()
        self.answered.acquire()
        self.result: Any = None
        self.error: BaseException | None = None
        self.task: asyncio.Task[None] | None = None

    async def answer(self) -> None:
        """Do the work, in the loop."""
        try:
            self.result = await self._work
        except BaseException as error:  # noqa: BLE001 it is the caller's, in another thread
            self.error = error
        self.answered.release()

    def refuse(self, why: str) -> None:
        """Answer that nothing can be done any more."""
        self._work.close()
        self.error = NetworkError(why)
        self.answered.release()

    def cancel(self) -> None:
        """Give the work up, in the loop: nobody waits for it any more."""
        if self.task is not None:
            self.task.cancel()


class Shared:
    """The one loop thread of a process, which all its clients use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._current: LoopThread | None = None

    def join(self) -> LoopThread:
        """Use it from now on."""
        with self._lock:
            if self._current is None:
                self._current = LoopThread()
            self._current.users += 1
            return self._current

    def leave(self) -> None:
        """Use it no more."""
        with self._lock:
            current = self._current
            if current is None:  # it was left behind in the process that this one was forked from
                return
            current.users -= 1
            if not current.users:
                self._current = None
                current.end()

    def forked(self) -> None:
        """Note that this is a new process, into which no thread has come along."""
        if self._current is not None:
            self._current.ended = FORKED
        self._lock = threading.Lock()
        self._current = None


SHARED: Final = Shared()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=SHARED.forked)
