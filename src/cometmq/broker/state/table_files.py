"""The files of the broker's tables: read as their types; a write encodes only changed entries."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from msgspec.structs import replace

from cometmq.errors import FormatError, StoreDamaged, StoreNotWritable
from cometmq.format.java import fastjson
from cometmq.store.log.full_disk import FULL
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import Body, from_plain, to_plain
from cometmq.wire.bodies.body import BodyType, wire_name

ENTRY_LEVEL: Final = 2
"""Nesting level of the entries in a table's file, as members of one of its members."""

EntryT = TypeVar("EntryT")
"""The type of a table's entries: a body, or a table of bodies."""


class EntryFile(Generic[EntryT]):
    """The file of a table with entries by name; a write encodes only the changed ones.

    One thread at a time may write.

    Args:
        table_type: the type of the table.
        attribute: the attribute of that type which holds the entries by name.
    """

    def __init__(self, table: JsonTable, table_type: type[Body], attribute: str) -> None:
        self.table = table
        self._attribute = attribute
        self._member = wire_name(table_type, attribute)
        self._texts: dict[str, str] = {}

    def write(self, rest: Body, changes: Mapping[str, EntryT | None]) -> None:
        """Write the table.

        Args:
            rest: the table; its entries are ignored.
            changes: the entries that have changed since the last write, even a failed one; None for removed
                ones.

        Raises:
            StoreNotWritable: the disk refuses; the file keeps its content.
        """
        for name, entry in changes.items():
            if entry is None:
                self._texts.pop(name, None)
            else:
                self._texts[name] = _text_of(name, entry)
        plain: dict[str, Any] = to_plain(replace(rest, **{self._attribute: {}}))
        plain[self._member] = fastjson.Written(_object(self._texts))
        save(self.table, plain)


def save(table: JsonTable, content: dict[str, Any]) -> None:
    """Save a table. Raises StoreNotWritable, with the remedy, if the disk refuses; it keeps its content."""
    try:
        table.save(content)
    except OSError as error:
        raise StoreNotWritable(_refusal(error, table.path)) from error


def load(table: JsonTable, body_type: type[BodyType]) -> BodyType | None:
    """Read a table; return None if there is no file yet.

    Raises StoreDamaged if it is JSON of another type.
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


def _refusal(error: OSError, path: Path) -> str:
    """Return the error text with its remedy for a write that the disk refused."""
    if error.errno in FULL:
        return f"{path} is not saved, disk full: free some space, then try again"
    return f"{path} is not saved: {os.strerror(error.errno or 0)}: make it writable, then try again"


def _text_of(name: str, entry: object) -> str:
    """Encode an entry as a member, name and value, of the table's file."""
    value = fastjson.dumps(to_plain(entry), pretty=True, level=ENTRY_LEVEL)
    return f"{fastjson.dumps(name)}:{value}"


def _object(members: Mapping[str, str]) -> str:
    """Encode the object of these members as in the table's file."""
    end = "\n" + "\t" * (ENTRY_LEVEL - 1)
    line = end + "\t"
    return f"{{{line}{f',{line}'.join(members.values())}{end}}}"
