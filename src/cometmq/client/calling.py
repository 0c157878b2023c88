"""Call functions of the application: async ones in the loop, plain ones in threads."""

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import copy_context
from typing import Any


class HandlerEnded(Exception):
    """A handler ended by CancelledError or SystemExit; for its caller that is a failure like any other."""


async def call(function: Callable[[Any], Any], argument: Any, pool: Executor, *, is_async: bool) -> Any:
    """Call a function and return its result; a plain (not async) function runs in ``pool``.

    It sees the caller's context variables there, too.

    Raises what the function raises, but HandlerEnded instead of a CancelledError or SystemExit of its own.
    """
    try:
        result = function(argument) if is_async else await _in_thread(function, argument, pool)
        if inspect.isawaitable(result):  # also of an async function inside a partial or a callable object
            result = await result
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise  # the caller is cancelled
        raise HandlerEnded("something that the handler waited for was cancelled") from error
    return result


async def _in_thread(function: Callable[[Any], Any], argument: Any, pool: Executor) -> Any:
    try:
        run = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(pool, run, function, argument)
    except SystemExit as error:  # as in any other thread, it cannot end the process
        raise HandlerEnded(f"the handler called sys.exit({error.code!r})") from error
