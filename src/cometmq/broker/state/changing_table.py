"""Tables that change all the time: written now and then in a thread, and once more at the stop.

A write costs the loop copies of the entries that have changed, and of no others. The texts of all entries are
kept by whoever writes, so that only changed ones are made text again.
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
"""How deep in a table's file its entries stand, if they are the members of one of its members."""


class ChangingTable(ABC, Generic[NameT, EntryT]):
    """What has changed since it was last written. The loop changes it; one thread at a time may write."""

    entry_level = ENTRY_LEVEL

    def __init__(self, table: JsonTable) -> None:
        self._table = table
        self._changes: dict[NameT, None] = {}  # the names of what the texts lack, in the order of changes
        self._is_refused = False  # the disk lacks what the texts have
        self._texts: dict[NameT, Written] = {}

    @abstractmethod
    def _copy_of(self, name: NameT) -> EntryT | None:
        """Return an entry as it is now, in a form that nobody changes; None if it is gone."""

    @abstractmethod
    def _plain(self, entry: EntryT) -> Any:
        """Return such a copy in RocketMQ's form, in any thread."""

    @abstractmethod
    def _whole(self, entries: Mapping[NameT, Any]) -> dict[str, Any]:
        """Return the table that has these entries in RocketMQ's form, in any thread."""

    @property
    def changed(self) -> bool:
        """Whether anything changed since it was last written."""
        return bool(self._changes) or self._is_refused

    def take_changed(self) -> dict[NameT, EntryT | None] | None:
        """Return what has changed since the last time, to be written; None if there is nothing to write."""
        if not self.changed:
            return None
        names, self._changes = self._changes, {}
        self._is_refused = False
        return {name: self._copy_of(name) for name in names}

    def write(self, changes: Mapping[NameT, EntryT | None]) -> None:
        """Write the table with these changes, in any thread.

        Raises OSError or StoreNotWritable: it is due again then.
        """
        self._make_texts(changes)
        try:
            self._write(self._whole(self._texts))
        except (OSError, StoreNotWritable):
            self._is_refused = True
            raise

    def save(self) -> None:
        """Write what changed since the last time. Raises OSError or StoreNotWritable."""
        if (changes := self.take_changed()) is not None:
            self.write(changes)

    def _note_loaded(self, names: Iterable[NameT]) -> None:
        """Make the texts of entries that were read: they are written as they are, until they change."""
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
