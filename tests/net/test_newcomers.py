"""Connections on which no known user has signed a request yet, at a server that checks its requests."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
from tests.kit.raw_peers import ECHO, RawPeer, Scene, echo, scene

from cometmq.net.guarded import Guarded
from cometmq.net.newcomers import Crowd, CrowdedStream, NewcomerLimits
from cometmq.net.session import PARTIAL_FRAME_MS_MAX
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import RESPONSE_FLAG, Command, encode

SIZE_MAX: Final = 100_000
MS_MAX: Final = 10_000
LIMITS: Final = NewcomerLimits(SIZE_MAX, MS_MAX, refused_max=3, connections_max=2)
SIGNED: Final = {"signed": "yes"}
LONG: Final = echo(9, bytes(SIZE_MAX))
LIMIT_S: Final = 60


class Signed:
    """Counts a request as signed that says so, and admits no others but those with an odd number."""

    def refusal(self, command: Command, address: str) -> str | None:  # noqa: ARG002  a RequestCheck takes it
        return None if self.is_signed(command) or command.opaque % 2 else "who are you?"

    def is_signed(self, command: Command) -> bool:
        return command.ext_fields == SIGNED

    def is_suspect(self, address: str) -> bool:  # noqa: ARG002  a RequestCheck takes it
        return False


@asynccontextmanager
async def checked(limits: NewcomerLimits = LIMITS) -> AsyncIterator[Scene]:
    async with asyncio.timeout(LIMIT_S), scene() as here:
        here.server.handler = Guarded(here.handler, Signed())
        here.server.limit_newcomers(limits)
        yield here


async def sign(peer: RawPeer) -> None:
    await peer.send(encode(Command(ECHO, 7, ext_fields=dict(SIGNED))))
    assert (await peer.receive()).code == ResponseCode.SUCCESS


async def test_a_frame_that_is_too_long_closes_the_connection_when_its_length_is_known(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with checked() as here:
        peer = await here.connect()
        await peer.send(LONG[:100])
        assert await peer.closed_by_server()
    assert f"a frame of {len(LONG)} bytes, at most {SIZE_MAX} are allowed" in caplog.text
    assert "unsignedFrameBytesMax" in caplog.text


async def test_behind_a_signed_request_it_may_be_as_long_as_anybodys() -> None:
    async with checked() as here:
        peer = await here.connect()
        signed = encode(Command(ECHO, 7, ext_fields=dict(SIGNED)))
        await peer.send(signed + LONG[:100])  # both in one read
        assert (await peer.receive()).opaque == 7
        await peer.send(LONG[100:])
        assert (await peer.receive()).opaque == 9


async def test_who_sends_nothing_or_part_of_a_frame_has_less_time_than_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    assert MS_MAX < PARTIAL_FRAME_MS_MAX
    async with checked(LIMITS._replace(connections_max=0)) as here:
        silent, slow, slow_again, known, done = [await here.connect() for _ in range(5)]
        await slow.send(echo(1)[:5])
        await slow_again.send(echo(1))
        await slow_again.receive()
        await slow_again.send(echo(3)[:5])
        await sign(known)
        await known.send(echo(3)[:5])
        await done.send(echo(1))
        await done.receive()
        await here.accepted()
        here.pass_time(0)
        here.pass_time(MS_MAX - 1)
        assert len(here.server.sessions) == 6
        here.pass_time(1)
        for peer in (silent, slow, slow_again):
            assert await peer.closed_by_server()
        await known.send(echo(3)[5:])
        assert (await known.receive()).opaque == 3
        await done.send(echo(5))
        assert (await done.receive()).opaque == 5
    assert caplog.text.count("a frame was not finished within 10 s") == 3


async def test_a_frame_that_has_come_and_waits_for_its_turn_is_not_late() -> None:
    async with checked() as here:
        peer = await here.connect()
        await here.accepted()
        port = peer.writer.get_extra_info("sockname")[1]
        (session,) = [one for one in here.server.sessions if one.peer[1] == port]
        session.data_received(echo(1))
        here.pass_time(MS_MAX)  # the loop was held up so long
        assert (await peer.receive()).opaque == 1


async def test_of_too_many_of_one_address_the_oldest_are_closed(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with checked() as here:
        known = await here.connect()
        await sign(known)
        *oldest, last_but_one, last = [await here.connect() for _ in range(7)]
        for peer in oldest:
            assert await peer.closed_by_server()
        for peer in (known, last_but_one, last):
            await sign(peer)
    lines = [record.getMessage() for record in caplog.records if "unsignedConnectionsMax" in record.message]
    assert [line[:20] for line in lines] == ["closed 1 connections", "closed 4 connections"]


async def test_after_some_refused_requests_and_answers_to_nothing_the_connection_is_closed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    async with checked() as here:
        peer = await here.connect()
        answer = encode(Command(ECHO, 1, RESPONSE_FLAG))
        await peer.send(echo(2) + answer + echo(4))
        for _ in range(2):
            assert (await peer.receive()).code == ResponseCode.NO_PERMISSION
        await peer.send(echo(6))
        assert await peer.closed_by_server()
        known = await here.connect()
        await sign(known)
        for number in range(2, 12, 2):
            await known.send(echo(number))
            assert (await known.receive()).code == ResponseCode.NO_PERMISSION
    assert caplog.text.count("unsignedRequestsMax") == 1


async def test_nothing_is_kept_of_those_that_are_gone() -> None:
    async with checked() as here:
        peer, known = await here.connect(), await here.connect()
        await sign(known)
        await peer.close()
        await here.handler.until(lambda: len(here.handler.gone) == 1)
        assert here.server.newcomers is not None
        assert not here.server.newcomers._refused and not here.server.newcomers.crowd._by_address


async def test_who_was_connected_before_is_limited_too() -> None:
    async with asyncio.timeout(LIMIT_S), scene() as here:
        early = await here.connect()
        await here.accepted()
        here.server.limit_newcomers(LIMITS)
        await early.send(LONG[:100])
        assert await early.closed_by_server()


class Waiting:
    """A connection that is only a name."""

    def __init__(self, address: str, port: int, cut: list[tuple[str, int]]) -> None:
        self.peer = (address, port)
        self._cut = cut

    def cut(self) -> None:
        self._cut.append(self.peer)


@pytest.fixture
async def cut() -> list[tuple[str, int]]:
    """Return what crowds have closed."""
    return []


async def test_a_crowd_closes_the_oldest_of_an_address_that_has_too_many(cut: list[tuple[str, int]]) -> None:
    crowd = Crowd(2, "they said nothing")
    assert [crowd.add(Waiting("10.0.0.1", port, cut)) for port in (3, 1, 2)] == [False, False, True]
    assert not crowd.add(Waiting("10.0.0.2", 4, cut))
    assert cut == [("10.0.0.1", 3)]
    crowd.close()


async def test_where_no_place_is_free_the_address_with_most_makes_room(
    cut: list[tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    crowd = Crowd(0, "they said nothing")
    assert not crowd.make_room()
    for address, port in (("::1", 1), ("::2", 2), ("::2", 3), ("::2", 4)):
        assert not crowd.add(Waiting(address, port, cut))
    assert [crowd.make_room() for _ in range(5)] == [True, True, True, True, False]
    assert cut[:2] == [("::2", 2), ("::2", 3)] and sorted(cut[2:]) == [("::1", 1), ("::2", 4)]
    crowd.close()
    lines = [record.getMessage() for record in caplog.records]
    assert [line[:20] for line in lines] == ["closed 1 connections", "closed 3 connections"]
    assert "the last one of [::2]:2: they said nothing" in lines[0]


async def test_a_connection_takes_the_place_and_the_age_of_what_had_its_address_before(
    cut: list[tuple[str, int]],
) -> None:
    crowd = Crowd(2, "they said nothing")
    accepted, other = Waiting("::1", 1, cut), Waiting("::1", 2, cut)
    crowd.add(accepted)
    crowd.add(other)
    assert not crowd.add(Waiting("::1", 1, cut))
    crowd.remove(accepted)  # it is not there
    assert crowd.add(Waiting("::1", 3, cut)) and cut == [("::1", 1)]
    crowd.remove(other)
    assert not crowd.add(Waiting("::1", 4, cut))
    crowd.close()


async def test_connections_by_a_unix_socket_are_told_apart(cut: list[tuple[str, int]]) -> None:
    crowd = Crowd(2, "they said nothing")
    first, *others = [Waiting("", 0, cut) for _ in range(3)]
    assert [crowd.add(one) for one in (first, *others)] == [False, False, True]
    crowd.remove(first)
    crowd.remove(others[0])
    assert not crowd.add(first)
    crowd.close()


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        client = socket.create_connection(listening.getsockname())
        accepted, _ = listening.accept()
    with client, accepted:
        yield client, accepted


async def test_a_stream_is_in_its_crowd_until_it_is_admitted_and_while_it_waits_again(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    crowd, lost = Crowd(0, "they said nothing"), asyncio.Event()
    begun: list[CrowdedStream] = []

    def begin(stream: CrowdedStream, _: asyncio.StreamReader, __: asyncio.StreamWriter) -> None:
        begun.append(stream)

    client, accepted = pair
    await asyncio.get_running_loop().connect_accepted_socket(
        lambda: CrowdedStream(begin, crowd, lost.set), accepted
    )
    (stream,) = begun
    assert stream.peer == client.getsockname()
    stream.admit()
    assert not crowd.make_room()
    stream.wait_for_peer()
    assert crowd.make_room() and stream.is_cut
    async with asyncio.timeout(LIMIT_S):
        await lost.wait()
    stream.wait_for_peer()
    assert not crowd.make_room(), "nothing is kept of one that is gone"
    crowd.close()
