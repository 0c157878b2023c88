"""The endpoint over real sockets, with a source that tests control."""

import asyncio
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from gzip import decompress

import pytest
from tests.broker.metrics.scraped import ask_blocking
from tests.kit.metrics_endpoint import Scene

from cometmq.errors import SettingsError, StoreNotWritable
from cometmq.metrics import endpoint as endpoint_module
from cometmq.metrics.endpoint import Endpoint, EndpointSource
from cometmq.metrics.limits import LIMITS


@asynccontextmanager
async def serving() -> AsyncIterator[Scene]:
    scene = Scene()
    await scene.endpoint.start()
    try:
        yield scene
    finally:
        await scene.endpoint.stop()


async def test_metrics_are_the_text_that_prometheus_reads() -> None:
    async with serving() as scene:
        answer = await scene.ask("/metrics")
        assert answer.status == 200 and answer.type.startswith("text/plain; version=")
        assert "# TYPE x_sent_total counter\nx_sent_total 7.0\n" in answer.text
        assert "process_resident_memory_bytes" in answer.text
        assert "process_resident" not in (await scene.ask("/metrics?name[]=x_sent_total")).text


async def test_ready_and_each_reason_why_not() -> None:
    async with serving() as scene:
        assert await scene.ask("/readyz") == (200, "text/plain; charset=utf-8", "ready\n")
        scene.reasons = ["recovering", "disk: full"]
        assert await scene.ask("/readyz") == (503, "text/plain; charset=utf-8", "recovering\ndisk: full\n")
        assert (await scene.ask("/healthz")).status == 200


async def test_an_event_loop_that_hangs_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "ALIVE_S_MAX", 0.1)
    async with serving() as scene:
        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(ask_blocking, scene.endpoint.address, "/healthz")
            answer = asking.result(60)  # this is what hangs
        assert answer.status == 503 and "has taken no work" in answer.text


async def test_an_error_of_the_store_is_the_answer_and_the_next_scrape_works() -> None:
    async with serving() as scene:
        scene.error = StoreNotWritable("the disk is gone")
        assert await scene.ask("/metrics") == (
            503,
            "text/plain; charset=utf-8",
            "no metrics: the disk is gone\n",
        )
        scene.error = None
        assert (await scene.ask("/metrics")).status == 200


async def test_values_that_do_not_come_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint_module, "COLLECT_S_MAX", 0.1)
    async with serving() as scene:
        scene.gate.clear()
        assert (await scene.ask("/metrics")).status == 503


async def test_scrapes_at_once_share_the_values_of_the_one_that_is_under_way() -> None:
    async with serving() as scene:
        scene.gate.clear()
        asking = [
            asyncio.create_task(scene.ask(path)) for path in ("/metrics", "/metrics?name[]=x_sent_total")
        ]
        while scene.endpoint._scrapes < 2:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)
        scene.gate.set()
        answers = await asyncio.gather(*asking)
        assert ["x_sent_total 7.0" in answer.text for answer in answers] == [True] * 2
        assert scene.collected == 1
        await scene.ask("/metrics")
        assert scene.collected == 2


async def test_silent_peers_hold_up_no_stop() -> None:
    scene = Scene(LIMITS._replace(request_ms_max=3_600_000))
    await scene.endpoint.start()
    place = scene.endpoint.host, scene.endpoint.port
    silent = [socket.create_connection(place) for _ in range(LIMITS.waiting_max)]
    assert (await scene.ask("/healthz")).status == 200
    async with asyncio.timeout(60):
        await scene.endpoint.stop()
    for peer in silent:
        peer.close()


@pytest.mark.parametrize(
    ("request_line", "first_line"),
    [
        (b"POST /metrics HTTP/1.1", b"HTTP/1.1 405 Method Not Allowed"),
        (b"GET /healthz HTTP/1.0", b"HTTP/1.1 200 OK"),
        (b"GET  /healthz HTTP/1.1", b"HTTP/1.1 400 Bad Request"),
        (b"GET /healthz SMTP/1.1", b"HTTP/1.1 400 Bad Request"),
        (b"\x16\x03\x01", b"HTTP/1.1 400 Bad Request"),
    ],
)
async def test_what_is_no_request_for_a_page_is_refused(request_line: bytes, first_line: bytes) -> None:
    async with serving() as scene, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(scene.endpoint.host, scene.endpoint.port)
        writer.write(request_line + b"\r\nHost: here\r\n\r\n")
        assert (await reader.read()).split(b"\r\n")[0] == first_line
        writer.close()


async def test_a_scraper_that_knows_gzip_gets_it() -> None:
    async with serving() as scene, asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(scene.endpoint.host, scene.endpoint.port)
        writer.write(b"GET /metrics HTTP/1.1\r\naccept-ENCODING: gzip;q=1.0\r\n\r\n")
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        assert b"Content-Encoding: gzip" in head.split(b"\r\n") and b"x_sent_total 7.0" in decompress(body)
        writer.close()


async def test_other_paths_name_those_that_there_are() -> None:
    async with serving() as scene:
        assert (await scene.ask("/"))[::2] == (200, "/metrics\n/healthz\n/readyz\n")
        assert (await scene.ask("/x"))[::2] == (404, "/metrics\n/healthz\n/readyz\n")


async def test_a_port_in_use_is_refused_with_the_remedy() -> None:
    async with serving() as scene:
        port = scene.endpoint.port
        other = Endpoint("127.0.0.1", port, EndpointSource(scene.collect, list), labels={}, series_max=1)
        with pytest.raises(SettingsError, match=f"cannot listen on 127.0.0.1:{port}: another service"):
            await other.start()
