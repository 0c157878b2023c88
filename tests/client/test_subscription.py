import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from cometmq.client.subscription import Subscription, unhandled
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
    with pytest.raises(SettingsError):
        Subscription("Orders", print, batch_size=1025)


def test_what_has_no_handler_fails() -> None:
    messages: Any = ["message"]
    with ThreadPoolExecutor(1) as pool, pytest.raises(LookupError, match="Orders"):
        asyncio.run(unhandled("Orders").handle(messages, pool))
