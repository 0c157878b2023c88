"""Exports of messages, as rows that are written as the messages are read; and downloads of bodies."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Final

from starlette.responses import Response

from cometmq.admin.readable import excerpt_of
from cometmq.console.bodies import FORMATS
from cometmq.console.streaming import Stream
from cometmq.console.visit import Visit
from cometmq.format.sys_flag import is_compressed
from cometmq.message import StoredMessage

PIECE_BYTES: Final = 64 * 1024
"""Bytes of rows, or of a body, that are sent together."""
INLINE_BYTES_MAX: Final = 32 * 1024
"""Longest body, not compressed, whose row is written in the loop; others are written in a thread."""
EXPORT_S: Final = 3_600
"""How long, in seconds, an export may take."""
SUFFIXES: Final = {"zlib": "zlib", "lz4": "lz4", "zstd": "zst"}
"""How the names of files end that are compressed."""


async def export(visit: Visit, walk: AsyncGenerator[StoredMessage], limit: int, kind: str) -> Response:
    """Answer with the first messages of an iteration as a file. Raises what it raises, and Busy."""
    name = visit.text("topic") or "messages"
    safe = "".join(char if char.isalnum() or char in "-_" else "_" for char in name if char.isascii())
    headers = {"content-disposition": f'attachment; filename="{safe}.{kind}"'}
    rows = _rows(visit, walk, limit, kind)
    workload = visit.site.workload
    return await Stream(rows, FORMATS[kind].media_type, headers, workload.export).begun()


async def _rows(
    visit: Visit, walk: AsyncGenerator[StoredMessage], limit: int, kind: str
) -> AsyncGenerator[bytes]:
    heading, write, _ = FORMATS[kind]
    workload, size_max = visit.site.workload, visit.site.settings.body_bytes_max
    piece, count = bytearray(heading), 0
    async with aclosing(walk), asyncio.timeout(EXPORT_S):
        async for message in walk:
            row = partial(write, message, size_max)
            is_small = len(message.body) <= INLINE_BYTES_MAX and not is_compressed(message.sys_flag)
            piece += row() if is_small else await workload.off_loop(row)
            count += 1
            if len(piece) >= PIECE_BYTES:
                yield bytes(piece)
                piece.clear()
            if count == limit:
                break
    yield bytes(piece)


async def download(visit: Visit, message: StoredMessage) -> Response:
    """Answer with the body of a message; with a compressed one that is too large as it is stored.

    A large one counts as an export while it is sent. Raises Busy.
    """
    workload, size_max = visit.site.workload, visit.site.settings.body_bytes_max
    excerpt = await workload.off_loop(partial(excerpt_of, message, size_max))
    body, suffix = excerpt.beginning, "bin"
    if not excerpt.is_whole:
        body, suffix = message.body, SUFFIXES.get(excerpt.compression or "", "bin")
    headers = {"content-disposition": f'attachment; filename="{message.offset_id}.{suffix}"'}
    media_type = "application/octet-stream"
    if len(body) <= PIECE_BYTES:
        return Response(body, headers=headers, media_type=media_type)
    headers["content-length"] = str(len(body))
    return await Stream(_pieces_of(body), media_type, headers, workload.export).begun()


async def _pieces_of(body: bytes) -> AsyncGenerator[bytes]:
    for begin in range(0, len(body), PIECE_BYTES):
        yield body[begin : begin + PIECE_BYTES]
