"""Answers that are sent a piece at a time, while they are gathered."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractContextManager, aclosing, nullcontext, suppress
from typing import Final, Self

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from cometmq.errors import CometMQError
from cometmq.logs import get_logger

BEGIN_S: Final = 10
"""How long, in seconds, an answer waits for its first piece before it begins without: until then an error has
a page of its own, and only afterwards is it noticed that the visitor has left."""
STALLED_S: Final = 30
"""How long, in seconds, a visitor may read nothing of what waits for it; then the answer ends."""

_log: Final = get_logger(__name__)


class Stream(StreamingResponse):
    """Sends pieces, which a task of its own gathers: one waits while another is sent.

    A response that is cancelled could not wait until the connections of its reader are closed. An answer that
    cannot be finished ends without the mark of its end, so that a browser does not take it for whole.

    Args:
        place: called with the stream; the result is entered while its pieces are gathered.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes],
        media_type: str,
        headers: Mapping[str, str] | None = None,
        place: "Callable[[Stream], AbstractContextManager[object]]" = nullcontext,
    ) -> None:
        super().__init__(pieces, media_type=media_type, headers=headers)
        self._pieces = pieces
        self._place = place
        self._sending: asyncio.Timeout | None = None  # while the visitor has to read
        self._has_given_way = False
        self._waiting: asyncio.Queue[bytes] = asyncio.Queue(1)
        self._has_begun = asyncio.Event()

    @property
    def unread_s(self) -> float:
        """How long, in seconds, the visitor has read nothing of what waits for it; 0 if nothing waits."""
        if self._sending is None or (ends := self._sending.when()) is None:
            return 0
        return STALLED_S - (ends - asyncio.get_running_loop().time())

    def give_way(self) -> None:
        """End the answer now, as others need its place; only while ``unread_s`` is not 0."""
        self._has_given_way = True
        if self._sending is not None and not self._sending.expired():
            self._sending.reschedule(asyncio.get_running_loop().time())

    async def begun(self) -> Self:
        """Begin to gather, and wait a while for the first piece. Raises what comes instead of it."""
        self._gathering = asyncio.create_task(self._gather(), name="gather")
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(BEGIN_S):
                    await self._has_begun.wait()
            if self._gathering.done():
                self._gathering.result()
        except BaseException:
            await self._stop()
            raise
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces until there are no more, or the visitor is gone."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._stop()

    async def stream_response(self, send: Send) -> None:
        """Send the pieces, each within a time."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            while (piece := await self._next()) is not None:
                await self._send_piece(send, piece)
        except (CometMQError, TimeoutError) as error:
            reason = str(error) or "it took too long, or nothing of it was read"
            if self._has_given_way:
                reason = "little of it was read, and another export needed its place (--exports-max)"
            _log.warning("an answer is cut off: %s", reason)
        else:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_piece(self, send: Send, piece: bytes) -> None:
        """Send a piece. Raises TimeoutError if the visitor does not read, or the answer has to give way."""
        try:
            async with asyncio.timeout(STALLED_S) as self._sending:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            self._sending = None

    async def _gather(self) -> None:
        try:
            with self._place(self):
                async with aclosing(self._pieces) as pieces:
                    async for piece in pieces:
                        await self._waiting.put(piece)
                        self._has_begun.set()
        finally:
            self._has_begun.set()

    async def _next(self) -> bytes | None:
        """Return the next piece, None at the end. Raises what the pieces raise."""
        getting = asyncio.create_task(self._waiting.get())
        try:
            await asyncio.wait((getting, self._gathering), return_when=asyncio.FIRST_COMPLETED)
            if getting.done() or not self._waiting.empty():
                return await getting
            self._gathering.result()
            return None
        finally:
            getting.cancel()

    async def _stop(self) -> None:
        """Stop to gather, and wait until that has ended."""
        self._gathering.cancel()
        await asyncio.wait([self._gathering])
        if not self._gathering.cancelled():
            self._gathering.exception()  # who waits for a piece gets it; else asyncio would log it
