"""Decompress the bodies of pulled messages within a limit of memory.

A few compressed bytes can expand to very many. So messages wait as they are stored, and their bodies are
decompressed only for the handler, as many together as stay within a limit.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Final

from cometmq.errors import UndecodableBody
from cometmq.format.compression import DECOMPRESSED_MAX
from cometmq.format.stored import with_whole_body
from cometmq.format.sys_flag import is_compressed
from cometmq.message import StoredMessage

TOGETHER_MAX: Final = DECOMPRESSED_MAX
"""Limit of the bodies of one batch in bytes, unless it is a single message."""


class BodyLimit:
    """Limits the memory of decompressed bodies that are being handled at the same time.

    Args:
        size_max: with so many bytes in use further calls wait; so at most this and the bodies of one call
            are in use.
    """

    def __init__(self, size_max: int = TOGETHER_MAX) -> None:
        self._size_max = size_max
        self._size = 0
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def decompressed(self, messages: Sequence[StoredMessage]) -> AsyncIterator[Sequence[StoredMessage]]:
        """Decompress bodies for the ``with`` block. Raises UndecodableBody like ``decompress_all``."""
        if not any(is_compressed(message.sys_flag) for message in messages):
            yield messages
            return
        while self._size >= self._size_max:
            self._freed.clear()
            await self._freed.wait()
        whole = decompress_all(messages, self._size_max)
        size = sum(len(message.body) for message in whole)
        self._size += size
        try:
            yield whole
        finally:
            self._size -= size
            self._freed.set()


def decompress_first(messages: Iterable[StoredMessage], size_max: int = TOGETHER_MAX) -> list[StoredMessage]:
    """Decompress messages up to the first whose body is bad or exceeds the limit together with those before.

    Raises:
        UndecodableBody: the very first one cannot be decompressed.
    """
    whole: list[StoredMessage] = []
    try:
        whole.extend(_decompress_each(messages, size_max))
    except UndecodableBody:
        if not whole:
            raise
    return whole


def decompress_all(messages: Iterable[StoredMessage], size_max: int = TOGETHER_MAX) -> list[StoredMessage]:
    """Decompress all messages.

    Raises:
        UndecodableBody: one cannot be decompressed, or exceeds the limit together with those before it.
    """
    return list(_decompress_each(messages, size_max))


def _decompress_each(messages: Iterable[StoredMessage], size_max: int) -> Iterator[StoredMessage]:
    """Decompress messages one by one; all but the first must fit into the limit with those before."""
    limit = DECOMPRESSED_MAX
    for message in messages:
        whole = with_whole_body(message, size_max=limit)
        size_max -= len(whole.body)
        limit = max(0, size_max)
        yield whole
