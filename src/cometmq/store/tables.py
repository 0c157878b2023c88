"""The broker's tables (topics, groups, offsets, …): JSON files beside the store, with a backup.

A crash at any moment leaves either the old or the new content. The backup is the last version that was read
or written without error: a broken main file never replaces a good backup.

Source: RocketMQ ``common/ConfigManager.java`` (file names and format; the order of writes is our own).
"""

import logging
from pathlib import Path
from typing import Any

from cometmq.errors import FormatError
from cometmq.format import layout
from cometmq.format.java import fastjson
from cometmq.io.files import FileLayer

log = logging.getLogger(__name__)


class JsonTable:
    """One table, in a JSON file and its backup."""

    def __init__(self, layer: FileLayer, path: Path) -> None:
        self.path = path
        self._layer = layer
        self._verified: bytes | None = None

    def load(self) -> dict[str, Any] | None:
        """Read the table, from the backup if the main file is missing, empty or broken; None without both."""
        for path in (self.path, layout.backup_path(self.path)):
            if not self._layer.exists(path):
                continue
            data = self._layer.load(path)
            try:
                value = fastjson.loads(data.decode())
            except (FormatError, UnicodeDecodeError) as error:
                log.warning("%s cannot be read (%s); trying its backup", path, error)
                continue
            if isinstance(value, dict):
                self._verified = data
                return value
        return None

    def save(self, value: dict[Any, Any]) -> None:
        """Save the table's new content, durably. Raises OSError; the old content then stays."""
        data = fastjson.dumps(value, pretty=True).encode()
        if data == self._verified and self._layer.exists(self.path):
            return
        self._layer.make_directory(self.path.parent)
        if self._verified is not None:
            self._layer.save(layout.backup_path(self.path), self._verified)
        self._layer.save(self.path, data)
        self._verified = data
