"""The broker's tables (topics, groups, offsets, …): JSON files beside the store, with a backup.

A crash at any moment leaves either the old or the new content. The backup is the last version that was read
or written without error: a broken main file never replaces a good backup.

Source: RocketMQ ``common/ConfigManager.java`` (file names and format; the order of writes is our own).
"""

from pathlib import Path
from typing import Any, Final

from cometmq.errors import FormatError, StoreDamaged
from cometmq.format import layout
from cometmq.format.java import fastjson
from cometmq.io.files import FileLayer
from cometmq.io.regular import NotRegularFile
from cometmq.logs import get_logger

SUFFIX: Final = ".json"

log = get_logger(__name__)


class JsonTable:
    """One table, in a JSON file and its backup.

    Args:
        private: whether only the owner of the files may read and write them.
    """

    def __init__(self, layer: FileLayer, path: Path, *, private: bool = False) -> None:
        self.path = path
        self._layer = layer
        self._private = private
        self._verified: bytes | None = None

    def load(self) -> dict[str, Any] | None:
        """Read the table, from the backup if the main file is missing, empty or broken; None without both."""
        for path in (self.path, layout.backup_path(self.path)):
            if not self._layer.exists(path):
                continue
            try:
                return self._read(path)
            except FormatError as error:
                log.warning("%s cannot be read (%s); trying its backup", path, error)
        return None

    def load_latest(self) -> dict[str, Any] | None:
        """Read the table, never from the backup, which may lack its last change; None without both files.

        Raises StoreDamaged, with the remedies, if the main file is broken, or missing beside a backup.
        """
        backup = layout.backup_path(self.path)
        present = [path for path in (self.path, backup) if self._layer.exists(path)]
        if not present:
            return None
        if self._private:  # an operator may have copied them with another mode
            for path in present:
                self._layer.make_private(path)
        try:
            return self._read(self.path)
        except FileNotFoundError:
            wrong = "missing, but its backup is there"
        except FormatError as error:
            wrong = f"broken ({error})"
        raise StoreDamaged(
            f"{self.path} is {wrong}: repair it, or put {backup.name} in its place, which lacks the last "
            "change, or remove both to begin with an empty table"
        )

    def save(self, value: dict[Any, Any]) -> None:
        """Save the table's new content, durably. Raises OSError; the old content then stays."""
        data = fastjson.dumps(value, pretty=True).encode()
        if data == self._verified and self._layer.exists(self.path):
            return
        self._layer.make_directory(self.path.parent)
        save = self._layer.save_private if self._private else self._layer.save
        if self._verified is not None:
            save(layout.backup_path(self.path), self._verified)
        save(self.path, data)
        self._verified = data

    def _read(self, path: Path) -> dict[str, Any]:
        """Read one of the files. Raises FormatError, FileNotFoundError."""
        try:
            data = self._layer.load(path)
        except NotRegularFile as error:
            raise FormatError(error.strerror) from None
        try:
            value = fastjson.loads(data.decode())
        except UnicodeDecodeError as error:
            raise FormatError(f"not UTF-8 at byte {error.start}") from None
        if not isinstance(value, dict):
            raise FormatError("not a JSON object")
        self._verified = data
        return value


def is_table_name(name: str) -> bool:
    """Check whether a file name is that of a table or of its backup."""
    return name.removesuffix(layout.BACKUP_SUFFIX).endswith(SUFFIX)
