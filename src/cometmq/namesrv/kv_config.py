"""Texts by namespace and key that operators leave with a name server, kept in ``kvConfig.json``.

RocketMQ uses the namespace ``ORDER_TOPIC_CONFIG``: topic → ``broker-a:4;broker-b:4``.
RocketMQ: ``KVConfigManager.java``.
"""

from pathlib import Path
from typing import Final

from msgspec import field

from cometmq.errors import FormatError, StoreDamaged
from cometmq.io.files import Disk, FileLayer
from cometmq.wire.bodies import Body, decode, encode

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"


class KvConfig:
    """The table; each change is on the disk before it is seen.

    Args:
        path: the file, in which a Java name server may have left its table; None keeps the table in
            memory only.
        files: how to get at it.

    Raises:
        StoreDamaged: the file is there and cannot be read.
    """

    def __init__(self, path: Path | None = None, files: FileLayer | None = None) -> None:
        self._path = path
        self._files = files or Disk()
        self._tables: dict[str, dict[str, str]] = {}
        if path is not None and self._files.exists(path):
            self._tables = _load(path, self._files)

    def get(self, namespace: str, key: str) -> str | None:
        """Give a text, None if there is none."""
        return self._tables.get(namespace, {}).get(key)

    def table(self, namespace: str) -> dict[str, str] | None:
        """Give all texts of a namespace by key, None if there never was one."""
        table = self._tables.get(namespace)
        return None if table is None else dict(table)

    def put(self, namespace: str, key: str, value: str) -> None:
        """Set a text. Raises OSError, and changes nothing, if it cannot be saved."""
        self._replace(namespace, {**self._tables.get(namespace, {}), key: value})

    def delete(self, namespace: str, key: str) -> None:
        """Remove a text, if there is one. Raises OSError, and changes nothing, if that cannot be saved."""
        table = self._tables.get(namespace, {})
        if key in table:
            self._replace(namespace, {other: value for other, value in table.items() if other != key})

    def _replace(self, namespace: str, table: dict[str, str]) -> None:
        tables = {**self._tables, namespace: table}
        if self._path is not None:
            self._files.make_directory(self._path.parent)
            self._files.save(self._path, encode(_File(tables)))
        self._tables = tables


class _File(Body):
    """The content of ``kvConfig.json``."""

    tables: dict[str, dict[str, str]] = field(default_factory=dict, name="configTable")


def _load(path: Path, files: FileLayer) -> dict[str, dict[str, str]]:
    try:
        return decode(_File, files.load(path)).tables
    except FormatError as error:
        raise StoreDamaged(
            f"{path}: {error}; mend it, or move it away to begin with an empty table"
        ) from error
