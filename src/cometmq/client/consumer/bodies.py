"""Decompressing the bodies of what was pulled, one after the other, and not more at once than memory allows.

A few compressed bytes can stand for very many. So messages wait as they are stored, and their bodies are
decompressed as they are handed over; of those that are handed over together, as many as stay within a limit.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from cometmq.errors import UndecodableBody
from cometmq.format.compression import DECOMPRESSED_MAX
from cometmq.format.stored import with_whole_body
from cometmq.format.sys_flag import is_compressed
from cometmq.message import StoredMessage

TOGETHER_MAX: Final = DECOMPRESSED_MAX
"""So many bytes may bodies take that are handed over together, unless it is a single one."""


class BodyRoom:
    """Limits how many bytes decompressed bodies take that are being handled at the same time.

    Args:
        size_max: once those being handled have so many, further ones wait; so they take that and those of a
            single call at most.
    """

    def __init__(self, size_max: int = TOGETHER_MAX) -> None:
        self._size_max = size_max
        self._size = 0
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def whole(self, messages: Sequence[StoredMessage]) -> AsyncIterator[Sequence[StoredMessage]]:
        """Decompress bodies for as long as the ``with`` lasts. Raises UndecodableBody like ``all_whole``."""
        if not any(is_compressed(message.sys_flag) for message in messages):
            yield messages
            return
        while self._size >= self._size_max:
            self._freed.clear()
            await self._freed.wait()
        whole = all_whole(messages, self._size_max)
        size = sum(len(message.body) for message in whole)
        self._size += size
        try:
            yield whole
        finally:
            self._size -= size
            self._freed.set()


def first_whole(messages: Iterable[StoredMessage], together_max: int = TOGETHER_MAX) -> list[StoredMessage]:
    """Return the first messages with their bodies decompressed, as many as can be handed over together.

    These are all, or those before the first that cannot be decompressed or makes them too large.

    Raises:
        UndecodableBody: the first one cannot be decompressed.
    """
    whole: list[StoredMessage] = []
    size = 0
    for message in messages:
        try:
            whole.append(_whole(message, len(whole), together_max - size))
        except UndecodableBody:
            if whole:
                break
            raise
        size += len(whole[-1].body)
    return whole


def all_whole(messages: Iterable[StoredMessage], together_max: int = TOGETHER_MAX) -> list[StoredMessage]:
    """Return all messages with their bodies decompressed.

    Raises:
        UndecodableBody: one cannot be decompressed, or is too large together with those before it.
    """
    whole: list[StoredMessage] = []
    size = 0
    for message in messages:
        whole.append(_whole(message, len(whole), together_max - size))
        size += len(whole[-1].body)
    return whole


def _whole(message: StoredMessage, count_before: int, room: int) -> StoredMessage:
    """Decompress a body, but no more of it than there is room for if others are handed over before it."""
    return with_whole_body(message, size_max=max(room, 0) if count_before else DECOMPRESSED_MAX)
