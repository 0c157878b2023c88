"""Functions of the application are called where they belong, and end nobody but themselves."""

import asyncio
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import partial
from typing import Any

import pytest

from cometmq.client.calling import HandlerEnded, call, calling_tasks


def called(function: Callable[[Any], Any], *, is_async: bool) -> Any:
    with ThreadPoolExecutor(1, "pool") as pool:
        return asyncio.run(call(function, "message", pool, is_async=is_async))


async def where_async(message: str, prefix: str = "") -> tuple[str, str]:
    return prefix + message, threading.current_thread().name


def where_plain(message: str) -> tuple[str, str]:
    return message, threading.current_thread().name


def test_a_plain_function_runs_in_the_pool_and_an_async_one_in_the_loop() -> None:
    loop = threading.current_thread().name
    assert called(where_plain, is_async=False) == ("message", "pool_0")
    assert called(where_async, is_async=True) == ("message", loop)


def test_what_only_turns_out_to_be_async_is_awaited_in_the_loop() -> None:
    hidden = partial(where_async, prefix="a ")
    assert called(hidden, is_async=False)[0] == "a message"


@pytest.mark.parametrize("is_async", [True, False])
def test_what_it_raises_is_raised(is_async: bool) -> None:
    async def fail_async(_: object) -> None:
        raise ValueError("no")

    def fail(_: object) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        called(fail_async if is_async else fail, is_async=is_async)


def test_a_plain_function_cannot_end_the_process() -> None:
    with pytest.raises(HandlerEnded, match=r"sys\.exit\(3\)"):
        called(lambda _: sys.exit(3), is_async=False)


def test_a_cancellation_of_what_it_waits_for_is_its_failure_alone() -> None:
    async def wait_in_vain(_: object) -> None:
        waited_for = asyncio.get_running_loop().create_future()
        waited_for.cancel()
        await waited_for

    with pytest.raises(HandlerEnded, match="was cancelled"):
        called(wait_in_vain, is_async=True)


def test_a_plain_function_sees_the_caller_s_context_variables() -> None:
    trace: ContextVar[str] = ContextVar("trace", default="none")

    async def main() -> str:
        trace.set("mine")
        with ThreadPoolExecutor(1) as pool:
            found: str = await call(lambda _: trace.get(), "message", pool, is_async=False)
        return found

    assert asyncio.run(main()) == "mine"


@pytest.mark.parametrize("is_async", [True, False])
async def test_what_a_function_starts_knows_the_task_that_calls_it_until_it_ends(is_async: bool) -> None:
    ended, late = asyncio.Event(), list[asyncio.Task[set[asyncio.Task[Any]]]]()
    seen: list[set[asyncio.Task[Any]]] = []

    async def tasks_then() -> set[asyncio.Task[Any]]:
        await ended.wait()
        return calling_tasks()

    async def function(_: object) -> None:
        seen.append(await asyncio.create_task(asyncio.to_thread(calling_tasks)))
        late.append(asyncio.create_task(tasks_then()))

    def plain(_: object) -> None:
        seen.append(calling_tasks())

    with ThreadPoolExecutor(1) as pool:
        await call(function if is_async else plain, "message", pool, is_async=is_async)
    ended.set()
    assert seen == [{asyncio.current_task()}]
    assert await asyncio.gather(*late) == [set()] * len(late)
    assert calling_tasks() == set()
