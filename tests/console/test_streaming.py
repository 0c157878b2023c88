import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from cometmq.console import streaming
from cometmq.console.streaming import Stream
from cometmq.errors import NetworkError, NotFound

SCOPE = {"type": "http", "asgi": {"spec_version": "2.3"}}


class Visitor:
    """Receives an answer, and leaves when it is told to; it reads as long as it may."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.left, self.reads = asyncio.Event(), asyncio.Event()
        self.reads.set()

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        await self.reads.wait()
        self.sent.append(message)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent)

    @property
    def is_whole(self) -> bool:
        return self.sent[-1].get("more_body") is False


class Pieces:
    """Yields pieces, and then fails if an error is given."""

    def __init__(self, *pieces: bytes, error: Exception | None = None) -> None:
        self.taken = 0
        self.closed = asyncio.Event()
        self._pieces, self._error = pieces, error

    async def __call__(self) -> AsyncGenerator[bytes]:
        try:
            for piece in self._pieces:
                self.taken += 1
                yield piece
            if self._error is not None:
                raise self._error
        finally:
            self.closed.set()


async def test_all_pieces_are_sent_and_then_the_end() -> None:
    visitor, pieces = Visitor(), Pieces(b"a", b"b", b"c")
    stream = await Stream(pieces(), "text/csv", {"x-name": "v"}).begun()
    await stream(SCOPE, visitor.receive, visitor.send)
    assert visitor.body == b"abc" and visitor.is_whole
    assert (b"x-name", b"v") in visitor.sent[0]["headers"]


async def test_what_fails_before_the_first_piece_is_raised() -> None:
    with pytest.raises(NotFound):
        await Stream(Pieces(error=NotFound("x"))(), "text/csv").begun()


async def test_an_answer_whose_first_piece_is_late_begins_without_it_so_that_a_visitor_may_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "BEGIN_S", 0.01)
    closed = asyncio.Event()

    async def late() -> AsyncGenerator[bytes]:
        try:
            await asyncio.Event().wait()
            yield b"late"
        finally:
            closed.set()

    visitor = Visitor()
    stream = await Stream(late(), "text/csv").begun()
    visitor.left.set()
    await stream(SCOPE, visitor.receive, visitor.send)
    assert closed.is_set() and visitor.body == b""


async def test_what_fails_later_leaves_the_answer_without_its_end(caplog: pytest.LogCaptureFixture) -> None:
    visitor = Visitor()
    stream = await Stream(Pieces(b"a", b"b", error=NetworkError("gone\n"))(), "text/csv").begun()
    with caplog.at_level(logging.WARNING):
        await stream(SCOPE, visitor.receive, visitor.send)
    assert visitor.body == b"ab" and not visitor.is_whole
    assert caplog.messages == [r"an answer is cut off: gone\n"]


async def test_no_more_is_gathered_than_is_read_and_who_reads_nothing_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streaming, "STALLED_S", 0.01)
    visitor, pieces = Visitor(), Pieces(*[b"x"] * 100)
    stream = await Stream(pieces(), "text/csv").begun()
    visitor.reads.clear()
    visitor.sent.append({"type": "http.response.start"})
    send = visitor.send

    async def first_at_once(message: Any) -> None:
        if message["type"] != "http.response.start":
            await send(message)

    await stream(SCOPE, visitor.receive, first_at_once)
    assert pieces.taken <= 3 and pieces.closed.is_set() and not visitor.is_whole


async def test_an_answer_of_which_nothing_is_read_gives_way_at_once(caplog: pytest.LogCaptureFixture) -> None:
    visitor, pieces = Visitor(), Pieces(*[b"x"] * 100)
    stream = await Stream(pieces(), "text/csv").begun()
    assert stream.unread_s == 0
    sending = asyncio.Event()

    async def first_at_once(message: Any) -> None:
        if message["type"] != "http.response.start":
            sending.set()
            await visitor.send(message)

    visitor.reads.clear()
    answering = asyncio.create_task(stream(SCOPE, visitor.receive, first_at_once))
    async with asyncio.timeout(60):
        await sending.wait()
        assert stream.unread_s > 0
        stream.give_way()
        await answering
    assert pieces.closed.is_set() and visitor.sent == []
    assert "another export needed its place (--exports-max)" in caplog.text


async def test_gathering_ends_when_the_visitor_leaves() -> None:
    visitor, pieces = Visitor(), Pieces(*[b"x"] * 100)
    stream = await Stream(pieces(), "text/csv").begun()
    visitor.reads.clear()
    visitor.left.set()
    await stream(SCOPE, visitor.receive, visitor.send)
    assert pieces.closed.is_set() and visitor.sent == []
