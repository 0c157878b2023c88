"""An endpoint whose peers are slow, silent or many."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.client import HTTPConnection, RemoteDisconnected

import pytest
from tests.kit.metrics_endpoint import Scene
from tests.kit.raw_peers import is_closed

from cometmq.metrics.family import Family, FamilyKind
from cometmq.metrics.limits import LIMITS, EndpointLimits

LIMIT_S = 60
PATIENT_MS = 3_600_000
HEAD = b"GET /healthz HTTP/1.1\r\n"
LINE = b"X: y\r\n"
LARGE = Family("x_large", FamilyKind.GAUGE, ("name",), "", "more than sockets buffer")
ANSWER_MIN = 16 << 20
"""Bytes of a scrape that a peer cannot leave to the system's buffers."""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def limited(limits: EndpointLimits) -> AsyncIterator[Scene]:
    """Serve a source with limits; close what peers have opened at the end."""
    scene = Scene(limits)
    await scene.endpoint.start()
    try:
        async with asyncio.timeout(LIMIT_S):
            yield scene
    finally:
        scene.gate.set()
        await scene.endpoint.stop()


async def begun(scene: Scene) -> Streams:
    """Open a connection with the beginning of a request."""
    reader, writer = await asyncio.open_connection(scene.endpoint.host, scene.endpoint.port)
    writer.write(HEAD)
    return reader, writer


async def test_health_checks_are_answered_whoever_keeps_connections_busy() -> None:
    async with limited(LIMITS._replace(waiting_max=0, request_ms_max=PATIENT_MS)) as scene:
        slow = [await begun(scene) for _ in range(LIMITS.connections_max + 3)]
        for path in ("/healthz", "/readyz", "/metrics"):
            assert (await scene.ask(path)).status == 200
        assert [await is_closed(reader) for reader, _ in slow[:4]] == [True] * 4
        for _, writer in slow:
            writer.close()


async def test_of_the_slow_connections_of_one_address_the_oldest_give_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limits = LIMITS._replace(waiting_max=2, request_ms_max=PATIENT_MS, are_settings=True)
    async with limited(limits) as scene:
        slow = [await begun(scene) for _ in range(4)]
        assert [await is_closed(reader) for reader, _ in slow[:2]] == [True, True]
        assert (await scene.ask("/healthz")).status == 200
        for _, writer in slow:
            writer.close()
    assert "no whole request had come on them" in caplog.text and "metricsWaitingMax" in caplog.text


async def test_a_request_has_to_be_whole_in_time_however_its_lines_come() -> None:
    async with limited(LIMITS._replace(request_ms_max=200)) as scene:
        reader, writer = await begun(scene)
        closed = asyncio.create_task(is_closed(reader))
        while not closed.done():
            writer.write(LINE)
            await asyncio.wait([closed], timeout=0.02)
        assert await closed
        writer.close()


async def scraped(scene: Scene) -> socket.socket:
    """Send a request for a large answer, and do not read it; return when the answer has been begun."""
    scene.values.set(LARGE, 1, "x" * ANSWER_MIN)
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    await asyncio.to_thread(peer.connect, (scene.endpoint.host, scene.endpoint.port))
    peer.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
    await asyncio.to_thread(peer.recv, 1)
    return peer


async def test_an_answer_has_to_be_taken_in_time() -> None:
    async with limited(LIMITS._replace(request_ms_max=200)) as scene:
        peer = await scraped(scene)
        server = scene.endpoint._server
        assert server is not None
        while server._tasks:  # noqa: ASYNC110  what another thread does has no event
            await asyncio.sleep(0.01)
        assert await asyncio.to_thread(drained, peer) < ANSWER_MIN


async def test_who_does_not_take_an_answer_gives_way() -> None:
    limits = EndpointLimits(connections_max=1, waiting_max=0, request_ms_max=PATIENT_MS)
    async with limited(limits) as scene:
        peer = await scraped(scene)
        assert (await scene.ask("/healthz")).status == 200
        assert await asyncio.to_thread(drained, peer) < ANSWER_MIN


def drained(peer: socket.socket) -> int:
    """Read all there is; return how many bytes that were."""
    count = 0
    with peer:
        try:
            while data := peer.recv(1 << 20):
                count += len(data)
        except ConnectionResetError:
            pass
    return count


async def test_scrapes_are_limited_and_take_no_place_from_health_checks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with limited(LIMITS._replace(scrapes_max=1, are_settings=True)) as scene:
        scene.gate.clear()
        oldest = asyncio.create_task(scene.ask("/metrics"))
        while not scene.collecting:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)
        scraping = asyncio.create_task(scene.ask("/metrics?name[]=x_sent_total"))
        with pytest.raises(RemoteDisconnected):
            await oldest
        assert (await scene.ask("/healthz")).status == 200
        scene.gate.set()
        assert (await scraping).status == 200
    assert "1 scrapes waited (metricsScrapesMax), and no place was free" in caplog.text


async def test_the_scrapes_of_one_address_keep_no_other_out() -> None:
    async with limited(LIMITS._replace(scrapes_max=3)) as scene, asyncio.TaskGroup() as tasks:
        scene.gate.clear()
        other = tasks.create_task(asyncio.to_thread(scraped_from, "127.0.0.2", scene.endpoint.address))
        while not scene.collecting:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)
        many = [tasks.create_task(answered(scene)) for _ in range(8)]
        await asyncio.wait(many, return_when=asyncio.FIRST_COMPLETED)
        while sum(one.done() for one in many) < 6:
            await asyncio.wait([one for one in many if not one.done()], return_when=asyncio.FIRST_COMPLETED)
        scene.gate.set()
        assert await other == 200
        assert sum([await one for one in many]) == 2
        assert scene.collected == 1


async def answered(scene: Scene) -> bool:
    """Return whether a scrape is answered, and not closed."""
    try:
        return (await scene.ask("/metrics")).status == 200
    except (RemoteDisconnected, ConnectionResetError):
        return False


def scraped_from(source: str, address: str) -> int:
    """Return the status of a scrape from an address of this machine."""
    connection = HTTPConnection(address, timeout=LIMIT_S, source_address=(source, 0))
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().status
    finally:
        connection.close()


async def test_a_head_that_does_not_end_is_not_kept() -> None:
    async with limited(LIMITS._replace(request_ms_max=PATIENT_MS)) as scene:
        reader, writer = await begun(scene)
        writer.write(LINE * 10_000)
        assert await is_closed(reader)
        writer.close()


async def test_connections_above_the_limit_that_nobody_waits_for_are_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with limited(LIMITS._replace(connections_max=1, are_settings=True)) as scene:
        scene.gate.clear()
        scraping = asyncio.create_task(scene.ask("/metrics"))
        while not scene.collecting:  # noqa: ASYNC110  it has no event
            await asyncio.sleep(0.01)
        reader, writer = await begun(scene)
        assert await is_closed(reader)
        writer.close()
        scene.gate.set()
        assert (await scraping).status == 200
    assert "1 are open, which is the limit (metricsConnectionsMax)" in caplog.text
