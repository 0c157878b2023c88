import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from tests.pulled import stored

from cometmq.client.calling import HandlerEnded
from cometmq.client.handling.subscription import Subscription, unhandled
from cometmq.client.idempotence import Deduplicator, MemoryClaims
from cometmq.errors import FormatError, IllegalName, SettingsError


async def gather(into: list[Any], message: object) -> None:
    into.append(message)


@pytest.mark.parametrize("batch_size", [None, 1, 5])
def test_a_handler_gets_one_message_or_a_list(batch_size: int | None) -> None:
    got: list[Any] = []
    messages: Any = ["message"]
    with ThreadPoolExecutor(1) as pool:
        for handler in (got.append, partial(gather, got)):
            asyncio.run(Subscription("Orders", handler, batch_size=batch_size).handle(messages, pool))
    assert got == ["message" if batch_size is None else ["message"]] * 2


def test_the_broker_is_told_tags_or_sql() -> None:
    tags = Subscription("Orders", print, "paid || refunded").data(7)
    assert (tags.expression, tags.expression_type, tags.tags, tags.version) == (
        "paid || refunded",
        "TAG",
        {"paid", "refunded"},
        7,
    )
    sql = Subscription("Orders", print, sql="size > 3").data(7)
    assert (sql.expression, sql.expression_type, sql.tags) == ("size > 3", "SQL92", set())


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(IllegalName):
        Subscription("no topic", print)
    with pytest.raises(FormatError):
        Subscription("Orders", print, "||")
    with pytest.raises(ValueError, match="tags 'paid' and sql 'size > 3': give only one"):
        Subscription("Orders", print, "paid", sql="size > 3")
    with pytest.raises(SettingsError):
        Subscription("Orders", print, batch_size=1025)


def test_what_has_no_handler_fails() -> None:
    messages: Any = ["message"]
    with ThreadPoolExecutor(1) as pool, pytest.raises(LookupError, match="Orders"):
        asyncio.run(unhandled("Orders").handle(messages, pool))


async def cancelled() -> None:
    waited_for = asyncio.get_running_loop().create_future()
    waited_for.cancel()
    await waited_for


async def waits_for_what_was_cancelled(_: object) -> None:
    await cancelled()


def ends_the_program(_: object) -> None:
    sys.exit(3)


@pytest.mark.parametrize("once", [None, Deduplicator(MemoryClaims()).once("scope", lambda _: "key")])
@pytest.mark.parametrize(
    ("handler", "said"), [(waits_for_what_was_cancelled, "was cancelled"), (ends_the_program, "sys.exit")]
)
def test_what_would_end_a_worker_is_a_failure_of_the_handler(handler: Any, said: str, once: Any) -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(HandlerEnded, match=said):
        asyncio.run(Subscription("Orders", handler, once=once).handle([stored(0)], pool))


async def test_a_worker_that_is_cancelled_ends() -> None:
    begun = asyncio.Event()

    async def handle(_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    with ThreadPoolExecutor(1) as pool:
        work = asyncio.create_task(Subscription("Orders", handle).handle([stored(0)], pool))
        await begun.wait()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
