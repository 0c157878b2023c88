"""Make the idempotence keys of the sink: they name a row by what is stored of it, not by its place.

A task that is repeated may get its rows in another order (after any shuffle), and may have been killed after
any of them. So a key must not depend on the order. It is a digest of the write (query, micro-batch,
partition), of all that is stored of the row, and of a number that tells equal rows of one task apart: as they
are equal, it does not matter which of them gets which number. The partition belongs to it because equal rows
of two tasks are two messages.
"""

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

DIGEST_BYTES: Final = 16
SEEN_BYTES: Final = 8
"""Of a digest, to recognize equal rows: two different rows that share them are merely numbered, too."""


class RowKeys:
    """The keys of one task's rows. It remembers some 70 bytes of each row until the task ends.

    Args:
        write: what is the same in each attempt at this task, and different in any other task.
        column: the one that holds the key, if the user names one; rows in which it is null get a digest.
    """

    def __init__(self, write: str, column: str | None = None) -> None:
        self._write = blake2b(write.encode(), digest_size=DIGEST_BYTES).digest()
        self._column = column
        self._seen: set[int] = set()
        self._repeated: Counter[int] = Counter()

    def key(self, row: Mapping[str, Any], stored: tuple[Any, ...]) -> str:
        """Return the key of a row, a text.

        Args:
            row: its columns by name.
            stored: all that is stored of it, as values that msgpack knows, always in the same order.
        """
        named = None if self._column is None else row[self._column]
        if named is not None:
            return str(named)
        content = msgspec.msgpack.encode(stored)
        number = self._number(blake2b(content, digest_size=SEEN_BYTES).digest())
        return blake2b(content, digest_size=DIGEST_BYTES, key=self._write, salt=number).hexdigest()

    def _number(self, seen: bytes) -> bytes:
        """Return how many equal rows came before, as a salt of a digest."""
        short = int.from_bytes(seen, "little")
        if short in self._seen:
            self._repeated[short] += 1
        else:
            self._seen.add(short)
        return self._repeated[short].to_bytes(SEEN_BYTES, "little") if short in self._repeated else b""
