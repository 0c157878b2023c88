import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from tests.console.conftest import Browser

from cometmq.console.console import Console
from cometmq.console.pages import tail as module
from cometmq.console.pages.tail import event
from cometmq.console.settings import ConsoleSettings
from cometmq.message import Message
from cometmq.testing.embedded_broker import EmbeddedBroker

PATIENCE_S = 60


async def events_of(lines: AsyncIterator[str], name: str) -> str:
    """Return the data of the next event of this name."""
    found = False
    data: list[str] = []
    async with asyncio.timeout(PATIENCE_S):
        async for line in lines:
            if line == f"event: {name}":
                found = True
            elif found and line.startswith("data: "):
                data.append(line.removeprefix("data: "))
            elif found and not line:
                return "\n".join(data)
    raise AssertionError(f"it ended before an event {name}")


async def test_new_messages_come_to_the_page(broker: EmbeddedBroker) -> None:
    broker.create_topic("orders", 2)
    broker.send(Message("orders", b"before"), queue_id=0)
    async with (
        Console(ConsoleSettings(broker.name_server), port=0) as console,
        httpx.AsyncClient(base_url=f"http://{console.address}", timeout=PATIENCE_S) as client,
        client.stream("GET", "/tail/events?topic=orders&tags=paid") as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.aiter_lines()
        assert await anext(lines) == ":", "the first round has begun"
        broker.send(Message("orders", b"not paid", tags="open"), queue_id=0)
        broker.send(Message("orders", b"<b>paid</b>", tags="paid"), queue_id=1)
        rows = await events_of(lines, "messages")
    assert "&lt;b&gt;paid" in rows and "<tr>" in rows and "before" not in rows and "not paid" not in rows


async def test_it_ends_with_the_reason(broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    broker.create_topic("quiet", 1)
    monkeypatch.setattr(module, "FOLLOWED_S", -1)
    async with (
        Console(ConsoleSettings(broker.name_server), port=0) as console,
        httpx.AsyncClient(base_url=f"http://{console.address}", timeout=PATIENCE_S) as client,
        client.stream("GET", "/tail/events?topic=quiet") as answer,
    ):
        assert await events_of(answer.aiter_lines(), "end") == "it was followed for an hour"


async def test_the_page_asks_for_the_events_of_its_topic(broker: EmbeddedBroker, browser: Browser) -> None:
    broker.create_topic("orders", 1)
    assert "Follow" in await browser.text("/tail")
    page = await browser.page("/tail?topic=orders&tags=paid")
    assert 'data-events="/tail/events?topic=orders&amp;tags=paid"' in page.text
    assert 'href="/tail?topic=orders"' in (await browser.page("/topics/orders")).text


@pytest.mark.parametrize(
    ("path", "status", "told"),
    [
        ("/tail?topic=nowhere", 404, "no route for topic 'nowhere'"),
        ("/tail?topic=orders&tags=||", 400, "names no tag"),
        ("/tail/events", 400, "give the topic to follow"),
        ("/tail/events?topic=nowhere", 404, "no route for topic 'nowhere'"),
    ],
)
async def test_what_cannot_be_followed_is_told(browser: Browser, path: str, status: int, told: str) -> None:
    assert told in await browser.text(path, status)


async def test_one_page_too_many_is_refused(
    broker: EmbeddedBroker, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker.create_topic("orders", 1)
    monkeypatch.setattr(module, "_following", asyncio.Semaphore(0))
    assert "pages follow topics already" in await browser.text("/tail/events?topic=orders", 503)


def test_an_event_has_each_line_of_its_data() -> None:
    assert event("messages", "a\nb") == "event: messages\ndata: a\ndata: b\n\n"
    assert event("end", "") == "event: end\ndata: \n\n"
