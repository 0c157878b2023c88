"""Tables on the disk as the types that they must have, and what is wrong with them as our errors."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Generic

from msgspec.structs import replace

from cometmq.errors import FormatError, StoreDamaged, StoreNotWritable
from cometmq.format.java import fastjson
from cometmq.store.recovery.full_disk import FULL
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import Body, from_plain, to_plain
from cometmq.wire.bodies.body import BodyType, wire_name

ENTRY_LEVEL: Final = 2
"""How deep in a table's file the entries of one of its members stand."""


class EntryFile(Generic[BodyType]):
    """The file of a table that has entries by name; a write makes text of those only that have changed.

    One thread at a time may write.

    Args:
        table_type: the type of the whole table.
        attribute: the one of the table's type that holds the entries by name.
    """

    def __init__(self, table: JsonTable, table_type: type[Body], attribute: str) -> None:
        self.table = table
        self._attribute = attribute
        self._member = wire_name(table_type, attribute)
        self._texts: dict[str, str] = {}

    def write(self, rest: Body, changes: Mapping[str, BodyType | None]) -> None:
        """Write the table anew.

        Args:
            rest: the table; its entries do not count.
            changes: the entries that have changed since the last write, be it one that failed; None for those
                that are gone.

        Raises:
            StoreNotWritable: the disk refuses: the old content stays.
        """
        for name, entry in changes.items():
            if entry is None:
                self._texts.pop(name, None)
            else:
                self._texts[name] = _text_of(name, entry)
        plain: dict[str, Any] = to_plain(replace(rest, **{self._attribute: {}}))
        plain[self._member] = fastjson.Written(_object(self._texts))
        _save(self.table, plain)


def load(table: JsonTable, body_type: type[BodyType]) -> BodyType | None:
    """Give the table's content, or None if there is none yet.

    Raises StoreDamaged if it is JSON of something else.
    """
    content = table.load()
    if content is None:
        return None
    try:
        return from_plain(body_type, content)
    except FormatError as error:
        raise StoreDamaged(
            f"{table.path}: {error}; repair the file, or put its .bak in its place, "
            "or remove both to begin with an empty table"
        ) from None


def save(table: JsonTable, content: Body) -> None:
    """Replace the table's content. Raises StoreNotWritable if the disk refuses: the old content stays."""
    _save(table, to_plain(content))


def _save(table: JsonTable, plain: dict[str, Any]) -> None:
    try:
        table.save(plain)
    except OSError as error:
        raise StoreNotWritable(_why(error, table.path)) from error


def _why(error: OSError, path: Path) -> str:
    """Describe what the disk refused, and what helps."""
    if error.errno in FULL:
        return f"{path} is not saved, disk full: free some space, then try again"
    return f"{path} is not saved: {os.strerror(error.errno or 0)}: make it writable, then try again"


def _text_of(name: str, entry: Body) -> str:
    """Return an entry as a member of the table's file, name and value."""
    value = fastjson.dumps(to_plain(entry), pretty=True, level=ENTRY_LEVEL)
    return f"{fastjson.dumps(name)}:{value}"


def _object(members: Mapping[str, str]) -> str:
    """Return the object of these members as it stands in the table's file."""
    end = "\n" + "\t" * (ENTRY_LEVEL - 1)
    line = end + "\t"
    return f"{{{line}{f',{line}'.join(members.values())}{end}}}"
