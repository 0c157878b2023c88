"""Compressed bodies: passed on to clients that can decompress them, and decompressed for others.

A few bytes may be the body of a message of many megabytes. So bodies are decompressed one at a time, outside
of the loop if they are long, up to a limit; a longer one is passed on as it is stored. What clients
decompress: Java and Python ``zlib``, Node.js ``gzip`` only, and others differ by version.
"""

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from cometmq.format.stored import with_readable_body
from cometmq.format.sys_flag import CompressionType, compression_type, is_compressed
from cometmq.message import StoredMessage
from cometmq.proxy.http2.unsent import AnswersHeld

ZLIB_LANGUAGES: Final = frozenset({"JAVA", "PYTHON"})
"""The languages of the clients that decompress ``zlib``, as they name them."""
AT_ONCE_BYTES: Final = 1 << 16
"""Longest body that is decompressed in the loop."""
ROOM_S: Final = 5.0
"""How long a client may take to read what it has been sent, before a body is passed on as it is stored."""
UNLIMITED: Final = AnswersHeld()
"""Those of no call."""
MESSAGE_BYTES: Final = 1_024
"""What a message takes beside its body and its properties, about."""


class Bodies:
    """Decompresses bodies.

    Args:
        size_max: bytes of the longest.
    """

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1)  # it decompresses to the end for a call that is cancelled, too

    def close(self) -> None:
        """Decompress no more."""
        self._thread.shutdown(wait=False)

    async def readable(
        self, message: StoredMessage, language: str = "", answers: AnswersHeld = UNLIMITED
    ) -> StoredMessage:
        """Return a message with its body as a client reads it; unchanged if it cannot be decompressed.

        Args:
            language: that of the client's library, if it is known.
            answers: hold the body.
        """
        if not is_compressed(message.sys_flag):
            return message
        if language in ZLIB_LANGUAGES and compression_type(message.sys_flag) == CompressionType.ZLIB:
            return message
        whole = with_readable_body(message, size_max=AT_ONCE_BYTES)
        if whole is not message:
            return whole
        loop = asyncio.get_running_loop()
        while await answers.wait_for_room(ROOM_S):
            async with self._turn:
                if not answers.has_room:  # another one took it
                    continue
                work = partial(with_readable_body, message, size_max=self._size_max)
                whole = await loop.run_in_executor(self._thread, work)
                if whole is not message:
                    answers.hold_inflated(len(whole.body))
                return whole
        return message


def held_bytes(messages: Iterable[StoredMessage]) -> int:
    """Return how many bytes of memory messages take, about."""
    return sum(
        MESSAGE_BYTES
        + len(message.body)
        + sum(map(len, message.properties))
        + sum(map(len, message.properties.values()))
        for message in messages
    )
