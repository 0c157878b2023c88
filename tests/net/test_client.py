"""Connections that are shared, lost, opened again and closed."""

import asyncio

import pytest
from tests.net.peer import ASK_BACK, CLOSE, ECHO, KEEP, connections, listener, peer_at

from cometmq.errors import NetworkError
from cometmq.net.client import Connections
from cometmq.net.connection import Connection
from cometmq.wire.acl import Credentials, signed_fields
from cometmq.wire.frame import Command
from cometmq.wire.send_request import SendRequest


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_each_request_gets_its_own_answer_over_one_shared_connection(host: str) -> None:
    async with peer_at(host) as peer, connections() as client:
        bodies = [b"%d" % number for number in range(500)]
        answers = await asyncio.gather(
            *(client.request(peer.address, Command(ECHO, body=body)) for body in bodies)
        )
        assert [answer.body for answer in answers] == bodies
        assert len(peer.sessions) == 1
        assert len({command.opaque for command in peer.commands}) == 500


async def test_all_pending_fails_when_the_connection_is_lost_and_the_next_request_reconnects() -> None:
    async with peer_at() as peer, connections() as client:
        connection = await client.connect(peer.address)
        answers = [connection.request(Command(code)) for code in (KEEP, KEEP, CLOSE)]
        for answer in answers:
            with pytest.raises(NetworkError, match=f"lost {peer.address}") as caught:
                await answer
            assert caught.value.retriable
        with pytest.raises(NetworkError, match="is closed"):
            connection.request(Command(ECHO))
        assert (await client.request(peer.address, Command(ECHO, body=b"again"))).body == b"again"
        assert peer.sessions_seen == 2


async def test_a_server_that_does_not_accept_in_time_is_given_up() -> None:
    with pytest.raises(NetworkError, match=r"no connection to 127.0.0.1:9 within 0 ms"):
        await Connection.open("127.0.0.1:9", timeout_ms=0)


async def test_a_oneway_request_waits_until_the_server_has_read_what_came_before() -> None:
    async with peer_at() as peer, connections() as client:
        connection = await client.connect(peer.address)
        connection.pause_writing()
        told = asyncio.ensure_future(client.oneway(peer.address, Command(ECHO, body=b"told")))
        await connection.request(Command(ECHO))
        assert not told.done()
        connection.resume_writing()
        await told
        await peer.until(lambda: len(peer.commands) == 2)


async def test_one_that_gives_up_does_not_spoil_the_connection_for_others() -> None:
    async with peer_at() as peer, connections() as client:
        first = asyncio.ensure_future(client.request(peer.address, Command(ECHO)))
        second = asyncio.ensure_future(client.request(peer.address, Command(ECHO)))
        asyncio.get_running_loop().call_soon(first.cancel)
        assert (await second).code == 0
        assert first.cancelled() and len(peer.sessions) == 1


async def test_a_cancelled_request_is_forgotten() -> None:
    async with peer_at() as peer, connections() as client:
        connection = await client.connect(peer.address)
        answer = connection.request(Command(ECHO))
        answer.cancel()
        await connection.request(Command(ECHO))
        assert not connection._pending


async def test_close_fails_what_waits_and_forbids_what_comes() -> None:
    async with peer_at() as peer:
        client = Connections()
        connection = await client.connect(peer.address)
        answer = connection.request(Command(KEEP))
        await client.close()
        with pytest.raises(NetworkError, match="closed here"):
            await answer
        with pytest.raises(NetworkError, match="this client is closed"):
            await client.request(peer.address, Command(ECHO))
        connection.send(Command(ECHO))  # into the void
        await connection.close()


async def test_close_does_not_wait_for_ever_for_a_server_that_does_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("cometmq.net.connection.CLOSE_MS_MAX", 10)

    async with listener(lambda _: None) as address:
        connection = await Connection.open(address)
        for _ in range(20):
            connection.oneway(Command(ECHO, body=bytes(1 << 20)))
            await asyncio.sleep(0)
        await connection.close()


async def test_close_while_connecting_ends_the_attempt() -> None:
    async with peer_at() as peer:
        client = Connections()
        request = asyncio.ensure_future(client.request(peer.address, Command(ECHO)))
        asyncio.get_running_loop().call_soon(request.get_loop().create_task, client.close())
        with pytest.raises(NetworkError, match="closed"):
            await request
        await client.close()


async def test_requests_are_signed_with_the_credentials_and_responses_are_not() -> None:
    user = Credentials("user", "secret")
    send = SendRequest("g", "T", 0, 0, 1, 0, "", "broker", is_batch=False, body=b"sent")

    async with peer_at() as peer, connections(credentials=user) as client:
        await client.request(peer.address, Command(ECHO, ext_fields={"a": "1"}, body=b"asked"))
        await client.oneway(peer.address, Command(ECHO, body=b"told"))
        await client.oneway(peer.address, send)
        await client.oneway(peer.address, Command(ASK_BACK))
        await peer.until(lambda: any(command.is_response for command in peer.commands))
        *requests, answer = peer.commands
        assert answer.is_response
        assert not answer.ext_fields
        assert len(requests) == 4
        for one in requests:
            assert one.ext_fields == signed_fields(one.ext_fields, one.body, one.version, user)
