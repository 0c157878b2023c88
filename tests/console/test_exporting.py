import asyncio
import json
import re
from collections.abc import AsyncIterator
from random import Random

import httpx
import pytest
from tests.console.conftest import Browser, browsing

from cometmq.client import Producer, SendResult
from cometmq.console import exporting, workload
from cometmq.console.console import Console
from cometmq.console.settings import ConsoleSettings
from cometmq.message import Message
from cometmq.testing.embedded_broker import EmbeddedBroker

BOMB = bytes(3_000_000)
LIMIT = 1_000_000


@pytest.fixture
async def small(broker: EmbeddedBroker) -> AsyncIterator[Browser]:
    """Return a browser at a console that exports bodies of a million bytes, one export at a time."""
    settings = ConsoleSettings(broker.name_server, body_bytes_max=LIMIT, exports_max=1)
    async with browsing(settings) as browser:
        yield browser


async def fill(broker: EmbeddedBroker, topic: str, *bodies: bytes) -> list[SendResult]:
    broker.create_topic(topic, 1)
    async with Producer(broker.name_server) as producer:
        return [await producer.send(Message(topic, body)) for body in bodies]


async def test_rows_come_in_pieces_and_in_order(
    broker: EmbeddedBroker, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "PIECE_BYTES", 1_000)
    monkeypatch.setattr(exporting, "INLINE_BYTES_MAX", 100)
    bodies = [b"%d" % n + Random(n).randbytes(n * 3).hex().encode() for n in range(70)]
    await fill(broker, "many", *bodies)
    lines = await browser.page("/messages?topic=many&queue=embedded:0&offset=0&limit=60&export=jsonl")
    assert [json.loads(line)["body"].encode() for line in lines.text.splitlines()] == bodies[:60]
    newest = await browser.page("/messages?topic=many&limit=10000&export=jsonl")
    assert [json.loads(line)["body"].encode() for line in newest.text.splitlines()] == bodies[::-1]


async def test_a_body_that_is_too_large_is_told_and_the_others_are_exported(
    broker: EmbeddedBroker, small: Browser
) -> None:
    await fill(broker, "bombs", b"before", BOMB, b"after")
    page = await small.page("/messages?topic=bombs&queue=embedded:0&offset=0&export=jsonl")
    first, bomb, last = map(json.loads, page.text.splitlines())
    assert (first["body"], last["body"]) == ("before", "after")
    assert re.match(
        rf"\d+ bytes compressed by zlib, larger than {LIMIT}: download it from", bomb["body_left_out"]
    )
    path = re.search(r"/messages/\S+raw=1", bomb["body_left_out"])
    assert path is not None
    raw = await small.page(path[0])
    assert raw.headers["content-disposition"].endswith('.zlib"') and len(raw.content) < 10_000


async def test_what_cannot_be_exported_has_the_page_of_its_error(browser: Browser) -> None:
    await browser.text("/messages?topic=nowhere&export=csv", 404)
    assert "give a topic" in await browser.text("/messages?export=csv", 400)


async def test_one_export_too_many_is_told_to_try_again_and_one_that_is_left_makes_room(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "GIVES_WAY_S", 3_600)
    large, *_, small = await fill(
        broker, "large", *[Random(n).randbytes(1_000_000) for n in range(12)], b"small"
    )
    address = "/messages?topic=large&limit=100&export=jsonl"
    settings = ConsoleSettings(broker.name_server, exports_max=1)
    async with (
        Console(settings, port=0) as console,
        httpx.AsyncClient(base_url=f"http://{console.address}", timeout=60) as client,
    ):
        async with client.stream("GET", address) as first:
            assert first.status_code == 200
            refused = await client.get(address)
            assert refused.status_code == 503 and "too many exports run: 1 may at a time" in refused.text
            download = f"/messages/{large.offset_id}?raw=1"
            assert (await client.get(download)).status_code == 503
            assert (await client.get(f"/messages/{small.offset_id}?raw=1")).content == b"small"
            assert (await client.get("/healthz")).status_code == 200
        async with asyncio.timeout(60):
            while (await client.get(f"{address}&limit=1")).status_code == 503:
                pass
        assert (await client.get(download)).content == Random(0).randbytes(1_000_000)


async def test_an_export_that_nobody_reads_keeps_nobody_else_from_one(
    broker: EmbeddedBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workload, "GIVES_WAY_S", 0.2)
    await fill(broker, "unread", *[Random(n).randbytes(1_000_000) for n in range(12)])
    address = "/messages?topic=unread&limit=100&export=jsonl"
    settings = ConsoleSettings(broker.name_server, exports_max=1)
    async with (
        Console(settings, port=0) as console,
        httpx.AsyncClient(base_url=f"http://{console.address}", timeout=60) as client,
        client.stream("GET", address) as unread,
        asyncio.timeout(60),
    ):
        while (other := await client.get(address)).status_code == 503:
            pass
        assert len(other.text.splitlines()) == 12
        with pytest.raises(httpx.RemoteProtocolError):
            await unread.aread()
