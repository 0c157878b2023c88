"""The endpoint over real sockets, with a source that tests control."""

import asyncio
import socket
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from http.client import HTTPException

import pytest
from tests.broker.metrics.scraped import Answer, ask, ask_blocking

from cometmq.errors import SettingsError, StoreNotWritable
from cometmq.metrics import endpoint as endpoint_module
from cometmq.metrics.endpoint import REQUESTS_MAX, Endpoint, EndpointSource
from cometmq.metrics.family import Family, FamilyKind, Values

SENT = Family("x_sent_total", FamilyKind.COUNTER, (), "messages", "messages sent")


class Scene:
    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.error: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.collecting = self.collecting_max = 0
        self.endpoint = Endpoint(
            "127.0.0.1",
            0,
            EndpointSource(self.collect, lambda: self.reasons),
            labels={},
            series_max=10,
        )

    async def collect(self) -> Values:
        self.collecting += 1
        self.collecting_max = max(self.collecting_max, self.collecting)
        await self.gate.wait()
        self.collecting -= 1
        if self.error is not None:
            raise self.error
        values = Values()
        values.set(SENT, 7)
        return values

    async def ask(self, path: str) -> Answer:
        return await ask(self.endpoint.address, path)


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


async def test_scrapes_at_once_are_collected_one_after_the_other() -> None:
    async with serving() as scene:
        answers = await asyncio.gather(*(scene.ask("/metrics") for _ in range(3)))
        assert [answer.status for answer in answers] == [200] * 3 and scene.collecting_max == 1


async def test_silent_peers_take_a_limited_number_of_threads_and_hold_up_no_stop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(endpoint_module._Handler, "timeout", 3_600)
    monkeypatch.setattr(endpoint_module, "SILENCE_S_MAX", 3_600)
    scene = Scene()
    await scene.endpoint.start()
    place = scene.endpoint.host, scene.endpoint.port
    silent = [socket.create_connection(place) for _ in range(REQUESTS_MAX)]
    with pytest.raises((ConnectionError, HTTPException)):
        await scene.ask("/healthz")
    async with asyncio.timeout(60):
        await scene.endpoint.stop()
    for peer in silent:
        peer.close()


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
