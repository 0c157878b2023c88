import asyncio
import json
import tracemalloc
from collections.abc import AsyncGenerator

import pytest
from tests.console.conftest import Browser, text_of
from tests.fuzzed_broker import fuzzed_broker, nonsense
from tests.kit.messages import new_stored

from cometmq import blocking
from cometmq.admin import messages as admin_messages
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Consumer, Producer, SendResult, Start
from cometmq.console.pages import messages as module
from cometmq.console.pages.messages import first_of
from cometmq.message import Message, StoredMessage
from cometmq.testing.embedded_broker import EmbeddedBroker
from cometmq.wire.bodies.trace import TRACE_TOPIC


@pytest.fixture(scope="module")
def stored(broker: EmbeddedBroker) -> list[SendResult]:
    """Return what became of four messages: orders 0 to 3, in queue 0."""
    broker.create_topic("orders", 1)
    with blocking.Producer(broker.name_server) as producer:
        return [
            producer.send(
                Message(
                    "orders",
                    json.dumps({"id": number}).encode(),
                    tags="paid" if number % 2 else "open",
                    keys=(f"order-{number}",),
                    properties={"region": "eu"},
                )
            )
            for number in range(4)
        ]


@pytest.mark.parametrize(
    ("query", "found", "missing"),
    [
        ("", "4 messages, the newest first", "nothing"),
        ("&tags=paid", "2 messages, the newest first", "order-2"),
        ("&sql=region%3D%27eu%27&limit=1", "1 message, the newest first", "order-2"),
        ("&sql=region%3D%27us%27", "No message was found among the last 32 of each queue", "order-0"),
        ("&key=order-2", "1 message, found by key", "order-3"),
        ("&time=2020-01-01..&limit=2", "2 messages, from the time on, the oldest first", "order-2"),
        ("&time=..2020-01-01", "No message was found.", "order-0"),
        ("&queue=embedded:0&offset=3", "1 message, of the queue, from the offset on", "order-2"),
    ],
)
@pytest.mark.usefixtures("stored")
async def test_messages_are_found_in_each_way(browser: Browser, query: str, found: str, missing: str) -> None:
    text = await browser.text(f"/messages?topic=orders{query}")
    assert found in text and missing not in text.partition(found)[2]


async def test_a_message_is_found_by_its_ids(stored: list[SendResult], browser: Browser) -> None:
    assert "order-3" in await browser.text(f"/messages?id={stored[3].offset_id}")
    assert "order-3" in await browser.text(f"/messages?topic=orders&id={stored[3].message_id}")
    assert "give its topic" in await browser.text("/messages?id=" + "A" * 32, 400)


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("topic=orders&offset=3", "offset 3: give the queue too, as BROKER:ID"),
        ("topic=orders&queue=broker", "queue 'broker': write it as BROKER:ID"),
        ("topic=orders&limit=501", "limit '501': write a whole number from 1 to 500"),
        ("topic=orders&time=yesterday", "time: 'yesterday' is not a time"),
        ("topic=orders&export=xls", "export 'xls': give one of csv, jsonl"),
        ("topic=orders&tags=||", "names no tag"),
    ],
)
async def test_what_cannot_be_used_is_told_with_the_remedy(browser: Browser, query: str, told: str) -> None:
    assert told in await browser.text(f"/messages?{query}", 400)


@pytest.mark.usefixtures("stored")
async def test_what_was_found_is_exported(browser: Browser) -> None:
    lines = await browser.page("/messages?topic=orders&tags=open&export=jsonl")
    assert [json.loads(line)["body"] for line in lines.text.splitlines()] == ['{"id": 2}', '{"id": 0}']
    assert lines.headers["content-disposition"] == 'attachment; filename="orders.jsonl"'
    table = await browser.page("/messages?topic=orders&limit=10000&export=csv")
    assert table.headers["content-type"].startswith("text/csv") and len(table.text.splitlines()) == 5


async def test_a_message_has_its_body_in_three_views(stored: list[SendResult], browser: Browser) -> None:
    address = f"/messages/{stored[1].offset_id}"
    page = await browser.page(address)
    assert "{\n  &#34;id&#34;: 1\n}" in page.text and "Nobody has traced it" in page.text
    assert "region" in page.text and stored[1].message_id in page.text
    assert "7b 22 69 64 22" in await browser.text(f"{address}?view=hex")
    raw = await browser.page(f"{address}?raw=1")
    assert raw.content == b'{"id": 1}' and raw.headers["content-type"] == "application/octet-stream"


async def test_markup_of_a_producer_stays_text(broker: EmbeddedBroker, browser: Browser) -> None:
    broker.create_topic("bad", 1)
    async with Producer(broker.name_server) as producer:
        sent = await producer.send(Message("bad", b"<script>alert(1)</script>", tags="<b>"))
    for path in ("/messages?topic=bad", f"/messages/{sent.offset_id}"):
        page = await browser.page(path)
        assert "<script>alert" not in page.text and "&lt;script&gt;alert" in page.text
        assert "<b>" not in page.text


async def test_the_trace_of_a_message_is_shown(broker: EmbeddedBroker, browser: Browser) -> None:
    broker.create_topic("traced", 1)
    async with Producer(broker.name_server, "shop", trace=True) as producer:
        sent = await producer.send(Message("traced", b"x"))
    text = await browser.text(f"/messages/{sent.offset_id}")
    assert "sent to 127.0.0.1:" in text and "(normal) shop" in text and "stored" in text


async def test_a_search_that_takes_too_long_shows_what_it_has() -> None:
    async def endless() -> AsyncGenerator[StoredMessage]:
        yield new_stored()
        await asyncio.Event().wait()

    found, is_whole = await first_of(endless(), 5, timeout_s=0.01)
    assert found[0].beginning == b"body" and not is_whole


async def test_a_message_that_takes_too_long_to_find_is_told(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def endless(*_: object, **__: object) -> list[StoredMessage]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr(module, "SEARCH_S", 0.01)
    monkeypatch.setattr(admin_messages, "by_id", endless)
    assert "for 0.01 s, and it was not found" in await browser.text("/messages/7F?topic=orders", 504)


async def test_a_message_is_sent_again(
    stored: list[SendResult], broker: EmbeddedBroker, browser: Browser
) -> None:
    broker.create_topic("copies", 1)
    address = f"/messages/{stored[1].offset_id}"
    page = await browser.page(address)
    sent = await browser.send(page, f"{address}/send-again?topic=orders", to="copies")
    assert "It is stored" in await browser.text(sent.headers["location"])
    (copy,) = broker.messages("copies")
    assert copy.body == b'{"id": 1}' and copy.keys == ("order-1",)
    nowhere = await browser.send(page, f"{address}/send-again", to=" ")
    assert nowhere.status_code == 400 and "give the topic" in text_of(nowhere)


async def test_a_member_handles_a_message_now(
    stored: list[SendResult], broker: EmbeddedBroker, browser: Browser
) -> None:
    address = f"/messages/{stored[1].offset_id}"
    page = await browser.page(address)
    handled: list[bytes] = []
    consumer = Consumer(broker.name_server, "handlers", start=Start.LAST)
    consumer.subscribe("orders", lambda message: handled.append(message.body))
    async with consumer:
        result = text_of(await browser.send(page, f"{address}/handle?topic=orders", group="handlers"))
    assert "Handled" in result and "CR_SUCCESS" in result and b'{"id": 1}' in handled
    nobody = await browser.send(page, f"{address}/handle", group="handlers")
    assert nobody.status_code == 404 and "no members now" in text_of(nobody)


async def test_of_bombs_a_list_and_a_page_show_the_beginning(
    broker: EmbeddedBroker, browser: Browser
) -> None:
    broker.create_topic("bombs", 1)
    async with Producer(broker.name_server) as producer:
        sent = [await producer.send(Message("bombs", b"a" * 4_000_000)) for _ in range(3)]
    peaks = []
    for _ in range(3):  # other threads of this process may take memory meanwhile, but not each time
        tracemalloc.start()
        try:
            text = await browser.text("/messages?topic=bombs")
            page = await browser.page(f"/messages/{sent[0].offset_id}")
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert min(peaks) < 10_000_000
    assert "a" * 119 + "…" in text and "KiB zlib" in text
    assert "This is the beginning of the body" in page.text and page.text.count("a" * 1_000) < 270
    raw = await browser.page(f"/messages/{sent[0].offset_id}?raw=1")
    assert raw.content == b"a" * 4_000_000


async def test_a_message_is_shown_even_if_a_broker_does_not_answer_about_its_traces(
    broker: EmbeddedBroker, browser: Browser, stored: list[SendResult]
) -> None:
    async with TopicAdmin(broker.name_server) as admin, fuzzed_broker(admin, nonsense, TRACE_TOPIC):
        text = await browser.text(f"/messages/{stored[1].offset_id}")
    assert "order-1" in text and "It could not be looked for: 127.0.0.1:" in text
