"""Build the idempotence keys of the sink, from the stored content of a row and not from its position.

A task that is repeated may read its rows in another order (after any shuffle), and may have been killed after
any of them. So a key must not depend on the order. It is a digest of the write (query, micro-batch,
partition), of all stored content of the row, and of a number that distinguishes equal rows of one task: as
they are equal, it does not matter which of them has which number. The partition is included because equal
rows of two tasks are two messages.
"""

from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any, Final

import msgspec

DIGEST_BYTES: Final = 16
SEEN_BYTES: Final = 8
"""Of a digest, to recognise equal rows: two different rows that share them are numbered, too."""


class RowKeys:
    """Builds the keys of one task's rows. It keeps some 70 bytes for each row until the task ends.

    Args:
        write: names the task: the same in each of its attempts, different for any other task.
        column: the column with the key, if the user names one; rows where it is null get a digest.
    """

    def __init__(self, write: str, column: str | None = None) -> None:
        self._write = blake2b(write.encode(), digest_size=DIGEST_BYTES).digest()
        self._column = column
        self._seen: set[int] = set()
        self._repeated: Counter[int] = Counter()

    def key(self, row: Mapping[str, Any], stored: tuple[Any, ...]) -> str:
        """Return the key of a row.

        Args:
            row: its columns by name.
            stored: its stored content, as values for msgpack, always in the same order.
        """
        named = None if self._column is None else row[self._column]
        if named is not None:
            return str(named)
        content = msgspec.msgpack.encode(stored)
        number = self._number(blake2b(content, digest_size=SEEN_BYTES).digest())
        return blake2b(content, digest_size=DIGEST_BYTES, key=self._write, salt=number).hexdigest()

    def _number(self, seen: bytes) -> bytes:
        """Return the number of equal rows before, as the salt of a digest; empty if there are none."""
        short = int.from_bytes(seen, "little")
        if short in self._seen:
            self._repeated[short] += 1
        else:
            self._seen.add(short)
        return self._repeated[short].to_bytes(SEEN_BYTES, "little") if short in self._repeated else b""
