"""Operators' settings by namespace and key, which a name server keeps in ``kvConfig.json``.

RocketMQ uses the namespace ``ORDER_TOPIC_CONFIG``: topic → ``broker-a:4;broker-b:4``.
RocketMQ: ``KVConfigManager.java``.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from msgspec import field

from cometmq.errors import FormatError, StoreDamaged
from cometmq.io.files import Disk, FileLayer
from cometmq.wire.bodies import Body, TextTable, decode, encode

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"

TEXTS_BYTES_MAX: Final = 4 * 1024 * 1024
"""Most bytes of all texts with their names, about: each change writes all of them anew."""

WhenSaved: TypeAlias = Callable[[OSError | None], None]
"""Called with None once a change is on the disk, or with the error if it could not be saved."""


class _TextChange(NamedTuple):
    namespace: str
    key: str
    value: str | None
    when_saved: WhenSaved


class KvConfig:
    """The table of texts; each change is saved before it becomes visible.

    It is saved in a thread, once for all changes of a turn of the loop.

    Args:
        path: the file, which a Java name server may have written; None keeps the table in memory only.
        files: the file layer to use.

    Raises:
        StoreDamaged: the file exists and cannot be decoded.
    """

    def __init__(self, path: Path | None = None, files: FileLayer | None = None) -> None:
        self._path = path
        self._files = files or Disk()
        self._tables: dict[str, dict[str, str]] = {}  # replaced by each change, never modified
        self._waiting: list[_TextChange] = []
        self._waiting_bytes = 0  # of those that set a text
        self._writing: asyncio.Task[None] | None = None
        if path is not None and self._files.exists(path):
            self._tables = _load(path, self._files)
        self._bodies = {namespace: _body(table) for namespace, table in self._tables.items()}

    @property
    def texts_bytes(self) -> int:
        """How many bytes the texts and their names have, with those that are not saved yet."""
        saved = sum(len(namespace) + len(body) for namespace, body in self._bodies.items())
        return saved + self._waiting_bytes

    def get(self, namespace: str, key: str) -> str | None:
        """Return a text; None if there is none."""
        return self._tables.get(namespace, {}).get(key)

    def body(self, namespace: str) -> bytes | None:
        """Return the texts of a namespace as an encoded ``TextTable``; None if it never existed."""
        return self._bodies.get(namespace)

    def put(self, namespace: str, key: str, value: str, when_saved: WhenSaved) -> None:
        """Set a text; ``when_saved`` is called later."""
        self._waiting_bytes += size_of(namespace, key, value)
        self._change(_TextChange(namespace, key, value, when_saved))

    def delete(self, namespace: str, key: str, when_saved: WhenSaved) -> None:
        """Remove a text, if there is one; ``when_saved`` is called later."""
        self._change(_TextChange(namespace, key, None, when_saved))

    async def settled(self) -> None:
        """Wait until all changes are saved, or have failed."""
        if self._writing is not None:
            await self._writing

    def _change(self, change: _TextChange) -> None:
        self._waiting.append(change)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write(), name="save kvConfig.json")

    async def _write(self) -> None:
        try:
            while self._waiting:
                changes, self._waiting = self._waiting, []
                error: OSError | None = None
                try:
                    self._tables, self._bodies = await asyncio.to_thread(self._saved_with, changes)
                except OSError as refused:
                    error = refused
                for change in changes:
                    if change.value is not None:
                        self._waiting_bytes -= size_of(change.namespace, change.key, change.value)
                    change.when_saved(error)
        finally:
            self._writing = None

    def _saved_with(
        self, changes: Iterable[_TextChange]
    ) -> tuple[dict[str, dict[str, str]], dict[str, bytes]]:
        """Save the table with these changes; return it and its encoded namespaces. Raises OSError."""
        tables = {namespace: dict(table) for namespace, table in self._tables.items()}
        for namespace, key, value, _ in changes:
            if value is not None:
                tables.setdefault(namespace, {})[key] = value
            elif namespace in tables:
                tables[namespace].pop(key, None)
        if self._path is not None and tables != self._tables:
            self._files.make_directory(self._path.parent)
            self._files.save(self._path, encode(_File(tables)))
        changed = {change.namespace for change in changes} & tables.keys()
        return tables, self._bodies | {namespace: _body(tables[namespace]) for namespace in changed}


class _File(Body):
    """The content of ``kvConfig.json``."""

    tables: dict[str, dict[str, str]] = field(default_factory=dict, name="configTable")


def size_of(*texts: str) -> int:
    """Return how many bytes texts have."""
    return sum(len(text.encode(errors="surrogatepass")) for text in texts)


def _body(table: Mapping[str, str]) -> bytes:
    return encode(TextTable(dict(table)))


def _load(path: Path, files: FileLayer) -> dict[str, dict[str, str]]:
    try:
        return decode(_File, files.load(path)).tables
    except FormatError as error:
        raise StoreDamaged(
            f"{path}: {error}; repair it, or move it away to begin with an empty table"
        ) from error
