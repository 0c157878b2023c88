"""Long frames of many connections: how much of them is held, and who gets on."""

import asyncio
import logging

import pytest
from tests.kit.raw_peers import RawPeer, Scene, echo, scene

from cometmq.net.session import PARTIAL_FRAME_MS_MAX, Session
from cometmq.net.unfinished import LONG_FRAME_MIN, OVERTAKING_MS_MAX, STALLED_MS

ROOM = 300_000
BODY = bytes(100_000)
"""Of a frame three of which have less than ROOM only if headers count for nothing: so two have."""
LIMIT_S = 60


async def stall(here: Scene, sent: int = 90_000) -> RawPeer:
    """Send most of a frame, and nothing more."""
    peer = await here.connect()
    await peer.send(echo(1, BODY)[:sent])
    return peer


def held(here: Scene) -> int:
    return sum(session._reader.unfinished_size for session in here.server.sessions)


async def until_stalled(here: Scene, count: int) -> None:
    """Wait until the server knows of so many frames that are unfinished."""
    unfinished = here.server.unfinished
    while True:
        if len(unfinished._held) + len(unfinished._waiting) == count:
            return
        await asyncio.sleep(0.01)


async def test_frames_that_nobody_finishes_take_no_more_than_the_limit() -> None:
    async with asyncio.timeout(LIMIT_S), scene(unfinished_total_max=ROOM) as here:
        peers = [await stall(here) for _ in range(20)]
        await until_stalled(here, len(peers))
        assert here.server.unfinished.size <= ROOM
        assert held(here) <= ROOM + (len(peers) - 2) * (1 << 16), "of those that wait a first piece is there"
        short = await here.connect()
        await short.send(echo(7, bytes(LONG_FRAME_MIN - 200)))
        assert (await short.receive()).opaque == 7, "short frames need no room"


async def test_a_peer_that_goes_on_has_its_turn_when_those_that_do_not_are_cut(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with asyncio.timeout(LIMIT_S), scene(unfinished_total_max=ROOM) as here:
        stalled = [await stall(here) for _ in range(2)]
        await until_stalled(here, 2)
        honest = await here.connect()
        frame = echo(5, BODY)
        await honest.send(frame[:50_000])
        await until_stalled(here, 3)
        here.pass_time(STALLED_MS - 1)
        assert len(here.server.sessions) == 3
        here.pass_time(1)
        await honest.send(frame[50_000:])
        assert (await honest.receive()).body == BODY
        closed = [asyncio.create_task(peer.closed_by_server()) for peer in stalled]
        done, pending = await asyncio.wait(closed, timeout=0.2)
        assert (len(done), len(pending)) == (1, 1), "no more are cut than is needed"
        for task in pending:
            task.cancel()
    assert "unfinishedBytesTotalMax" in caplog.text


async def test_all_who_go_on_are_served_however_many_they_are() -> None:
    async with asyncio.timeout(LIMIT_S), scene(unfinished_total_max=ROOM) as here:
        peers = [await here.connect() for _ in range(20)]

        async def send(number: int, peer: RawPeer) -> None:
            frame = echo(number, BODY)
            for at in range(0, len(frame), 30_000):
                await peer.send(frame[at : at + 30_000])
                await asyncio.sleep(0)
            assert (await peer.receive()).opaque == number

        for _ in range(3):
            await asyncio.gather(*(send(number, peer) for number, peer in enumerate(peers)))
        assert here.server.unfinished.size == 0


async def test_a_frame_longer_than_the_limit_is_read_when_no_other_is() -> None:
    async with asyncio.timeout(LIMIT_S), scene(unfinished_total_max=ROOM) as here:
        peer = await here.connect()
        for number in (1, 2):
            await peer.send(echo(number, bytes(2 * ROOM)))
            assert (await peer.receive()).opaque == number


async def test_who_leaves_gives_its_room_to_who_waits() -> None:
    async with asyncio.timeout(LIMIT_S), scene(unfinished_total_max=ROOM) as here:
        stalled = [await stall(here) for _ in range(2)]
        await until_stalled(here, 2)
        waiting = await here.connect()
        frame = echo(5, BODY)
        await waiting.send(frame)
        await until_stalled(here, 3)
        await stalled[0].close()
        assert (await waiting.receive()).opaque == 5


async def test_waiting_for_room_is_no_stalling() -> None:
    async with asyncio.timeout(LIMIT_S), scene(unfinished_total_max=ROOM) as here:
        stalled = [await stall(here) for _ in range(2)]
        await until_stalled(here, 2)
        waiting = await stall(here)
        await until_stalled(here, 3)
        here.pass_time(0)
        here.clock.advance(PARTIAL_FRAME_MS_MAX)
        session = next(iter(here.server.unfinished._waiting))
        assert isinstance(session, Session)
        session.sweep(here.clock.monotonic_ms())
        assert not session.closed
        for peer in (*stalled, waiting):
            await peer.close()


async def test_short_frames_overtake_long_ones_that_have_not_waited_for_long() -> None:
    async with asyncio.timeout(LIMIT_S), scene(unfinished_total_max=ROOM) as here:
        stalled = [await stall(here) for _ in range(2)]
        await until_stalled(here, 2)
        waiting = await stall(here)
        await until_stalled(here, 3)
        short = await here.connect()
        await short.send(echo(7, bytes(50_000)))
        assert (await short.receive()).opaque == 7
        here.clock.advance(OVERTAKING_MS_MAX)
        await short.send(echo(8, bytes(80_000)))
        await until_stalled(here, 4)
        here.pass_time(0)  # those that stall are cut, and both that waited have room
        assert (await short.receive()).opaque == 8
        for peer in (*stalled, waiting):
            await peer.close()
