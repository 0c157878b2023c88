from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from cometmq.errors import RequestTimeout
from cometmq.io.clock import SystemClock
from cometmq.net.connection import Connection
from cometmq.net.min_timeouts import min_timeout, min_timeout_s, remove_min_timeout
from cometmq.net.server import Server, Session
from cometmq.wire.frame import Command, response

HOST = "127.0.0.1"
CODE = 105


class Late:
    """Answers nothing before there are two requests, and then both; starts anew with each session."""

    def __init__(self) -> None:
        self._waiting: list[Command] = []

    def handle(self, session: Session, commands: list[Command]) -> None:
        self._waiting += commands
        if len(self._waiting) > 1:
            for command in self._waiting:
                session.send(response(command))

    def closed(self, _: Session) -> None:
        self._waiting.clear()


@asynccontextmanager
async def late_server() -> AsyncIterator[str]:
    server = Server(Late(), clock=SystemClock())
    try:
        yield f"{HOST}:{await server.start(HOST, 0)}"
    finally:
        await server.stop()


@pytest.fixture
def nobody() -> Iterator[str]:
    yield "203.0.113.7:1"
    assert min_timeout_s("203.0.113.7:1") == 0


async def test_an_answer_is_waited_for_longer_than_was_asked_for() -> None:
    async with late_server() as address:
        connection = await Connection.open(address)
        with min_timeout(address, 60):
            first = connection.request(Command(CODE), timeout_ms=20)
            with pytest.raises(RequestTimeout, match="within 20 ms"):
                await lost(address)  # by the time that another one has given up
            second = connection.request(Command(CODE), timeout_ms=20)
            assert (await first).opaque != (await second).opaque
        await connection.close()


async def lost(address: str) -> None:
    """Ask another server that does not answer, which has no minimum timeout."""
    async with late_server() as other:
        assert other != address
        connection = await Connection.open(other)
        try:
            await connection.request(Command(CODE), timeout_ms=20)
        finally:
            await connection.close()


async def test_when_a_minimum_timeout_is_removed_or_over_the_request_ends_as_ever() -> None:
    async with late_server() as address:
        connection = await Connection.open(address)
        with min_timeout(address, 60):
            remove_min_timeout(address)
            with pytest.raises(RequestTimeout, match="within 10 ms"):
                await connection.request(Command(CODE), timeout_ms=10)
        await connection.close()
        connection = await Connection.open(address)
        with min_timeout(address, 0.05), pytest.raises(RequestTimeout, match="within 50 ms"):
            await connection.request(Command(CODE), timeout_ms=10)
        await connection.close()


def test_it_is_about_one_address_and_ends(nobody: str) -> None:
    with min_timeout(nobody, 3):
        assert (min_timeout_s(nobody), min_timeout_s("203.0.113.7:2")) == (3, 0)
