"""Tables that change all the time: written at intervals in a thread, and once more when the broker stops.

A write costs the loop copies of the changed entries only. The JSON texts of all entries are kept, so that a
write encodes only the changed ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from cometmq.errors import StoreNotWritable
from cometmq.format.java.fastjson import Written, dumps
from cometmq.store.tables import JsonTable

NameT = TypeVar("NameT", bound=Hashable)
EntryT = TypeVar("EntryT")

ENTRY_LEVEL: Final = 2
"""Nesting level of a table's entries in its file, if they are members of one of its members."""


class ChangingTable(ABC, Generic[NameT, EntryT]):
    """A table with its changes since the last write. The loop changes it; one thread at a time may write."""

    entry_level = ENTRY_LEVEL

    def __init__(self, table: JsonTable) -> None:
        self._table = table
        self._changes: dict[NameT, None] = {}  # names of entries whose texts are out of date
        self._is_refused = False  # the last write failed: the texts are newer than the file
        self._texts: dict[NameT, Written] = {}

    @abstractmethod
    def _copy_of(self, name: NameT) -> EntryT | None:
        """Return a copy of an entry as it is now; None if it is gone."""

    @abstractmethod
    def _plain(self, entry: EntryT) -> Any:
        """Return such a copy in RocketMQ's form. Safe from any thread."""

    @abstractmethod
    def _whole(self, entries: Mapping[NameT, Any]) -> dict[str, Any]:
        """Return the table with these entries, both in RocketMQ's form. Safe from any thread."""

    @property
    def changed(self) -> bool:
        """Whether the file is out of date."""
        return bool(self._changes) or self._is_refused

    def take_changed(self) -> dict[NameT, EntryT | None] | None:
        """Return copies of the entries that changed since the last call, for ``write``; None if none did."""
        if not self.changed:
            return None
        names, self._changes = self._changes, {}
        self._is_refused = False
        return {name: self._copy_of(name) for name in names}

    def write(self, changes: Mapping[NameT, EntryT | None]) -> None:
        """Write the table with these changes. Safe from any thread.

        Raises OSError or StoreNotWritable; the next call then writes these changes too.
        """
        self._make_texts(changes)
        try:
            self._write(self._whole(self._texts))
        except (OSError, StoreNotWritable):
            self._is_refused = True
            raise

    def save(self) -> None:
        """Write the table if it has changed. Raises OSError or StoreNotWritable."""
        if (changes := self.take_changed()) is not None:
            self.write(changes)

    def _add_loaded(self, names: Iterable[NameT]) -> None:
        """Encode entries that were read from the file, so that later writes include them."""
        self._make_texts({name: self._copy_of(name) for name in names})

    def _make_texts(self, entries: Mapping[NameT, EntryT | None]) -> None:
        for name, entry in entries.items():
            if entry is None:
                self._texts.pop(name, None)
            else:
                text = dumps(self._plain(entry), pretty=True, level=self.entry_level)
                self._texts[name] = Written(text)

    def _write(self, content: dict[str, Any]) -> None:
        self._table.save(content)
