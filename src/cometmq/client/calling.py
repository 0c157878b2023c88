"""Call functions of the application: async ones in the loop, plain ones in threads.

Such a function may stop the client that calls it. A stop that waited for the function would wait for itself,
so it asks ``calling_tasks`` which tasks to leave alone.
"""

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import ContextVar, copy_context
from typing import Any


class HandlerEnded(Exception):
    """A handler ended by CancelledError or SystemExit; for its caller that is a failure like any other."""


class _CallUnderWay:
    """A call under way, and the one within which it was made.

    Attributes:
        task: that makes the call; None when it has ended.
    """

    __slots__ = ("outer", "task")

    def __init__(self) -> None:
        self.task = asyncio.current_task()
        self.outer = _present.get()


_present: "ContextVar[_CallUnderWay | None]" = ContextVar("cometmq-call", default=None)


def calling_tasks() -> "set[asyncio.Task[Any]]":
    """Return the tasks that call the application's function from which this is called.

    Tasks and threads that the function has started count as the function while it runs.
    """
    tasks = set()
    one = _present.get()
    while one is not None:
        if one.task is not None:
            tasks.add(one.task)
        one = one.outer
    return tasks


async def call(function: Callable[[Any], Any], argument: Any, pool: Executor, *, is_async: bool) -> Any:
    """Call a function and return its result; a plain (not async) function runs in ``pool``.

    It sees the caller's context variables there, too.

    Raises what the function raises, but HandlerEnded instead of a CancelledError or SystemExit of its own.
    """
    one = _CallUnderWay()
    token = _present.set(one)
    try:
        result = function(argument) if is_async else await _in_thread(function, argument, pool)
        if inspect.isawaitable(result):  # also of an async function inside a partial or a callable object
            result = await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # the caller is cancelled
        raise HandlerEnded("something that the handler waited for was cancelled") from error
    finally:
        one.task = None
        _present.reset(token)
    return result


async def _in_thread(function: Callable[[Any], Any], argument: Any, pool: Executor) -> Any:
    try:
        run = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(pool, run, function, argument)
    except SystemExit as error:  # as in any other thread, it cannot end the process
        raise HandlerEnded(f"the handler called sys.exit({error.code!r})") from error
