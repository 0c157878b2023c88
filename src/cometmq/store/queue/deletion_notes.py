"""Deletions since the ledger's large file was saved: ``config/deletions.json``.

The file is small, as it is emptied whenever the large one is saved; so recording a deletion costs the same
however many queues there are. Applying a deletion twice, or an expired one, does no harm: it only concerns
records before its offset. Like the ledger's own file it is CometMQ's, and no Java broker touches it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from cometmq.format import layout
from cometmq.io.files import FileLayer
from cometmq.logs import get_logger
from cometmq.store.tables import JsonTable

log = get_logger(__name__)

NAME: Final = "deletions"


class _NotesFile(msgspec.Struct):
    """The file's content: CommitLog offsets of deletions of topics, and of queues by topic and id."""

    topics: dict[str, int] = {}
    queues: dict[str, dict[int, int]] = {}


class DeletionNotes:
    """The recorded deletions of one store. Safe from any thread.

    Attributes:
        topics: by topic, the CommitLog offset before which its records are deleted.
        queues: by topic and queue id, the CommitLog offset of a queue's deletion.
    """

    def __init__(self, layer: FileLayer, root: Path) -> None:
        self.topics: dict[str, int] = {}
        self.queues: dict[str, dict[int, int]] = {}
        self._table = JsonTable(layer, layout.config_path(root, NAME))
        self._lock = Lock()

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return bool(self.topics or self.queues)

    def load(self) -> None:
        """Load the file if it exists; unreadable content counts as none."""
        content = _NotesFile()
        try:
            content = msgspec.convert(self._table.load() or {}, _NotesFile, strict=False)
        except msgspec.ValidationError as error:
            log.warning("%s: %s; going on without it", self._table.path, error)
        self.topics, self.queues = content.topics, content.queues

    def add(
        self,
        topics: Mapping[str, int],
        queues: Mapping[str, Mapping[int, int]],
        is_needed: Callable[[str, int], bool],
    ) -> None:
        """Record deletions, durably. Raises OSError; then none is recorded.

        Args:
            is_needed: decides by topic and offset whether an older deletion of a topic is kept.
        """
        with self._lock:
            kept = {topic: offset for topic, offset in self.topics.items() if is_needed(topic, offset)}
            more = {topic: self.queues.get(topic, {}) | dict(ids) for topic, ids in queues.items()}
            self._save(kept | dict(topics), self.queues | more)

    def clear(self) -> None:
        """Remove all deletions, as the ledger's own file includes them now. Raises OSError."""
        with self._lock:
            if self:
                self._save({}, {})

    def _save(self, topics: dict[str, int], queues: dict[str, dict[int, int]]) -> None:
        self._table.save(msgspec.to_builtins(_NotesFile(topics, queues), str_keys=True))
        self.topics, self.queues = topics, queues
