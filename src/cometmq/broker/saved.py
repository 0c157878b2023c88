"""Tables on the disk as the types that they must have, and what is wrong with them as our errors."""

from typing import Any, Final

from msgspec.structs import replace

from cometmq.errors import FormatError, StoreDamaged, StoreNotWritable
from cometmq.format import fastjson
from cometmq.store.commit_log import describe
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import Body, from_plain, to_plain
from cometmq.wire.bodies.body import BodyType, wire_name

ENTRY_LEVEL: Final = 2
"""How deep in a table's file the entries of one of its members stand."""


class EntryTexts:
    """The entries of a table as they stand in its file, so that a change writes anew only what it changed.

    An entry is known by its identity: whoever keeps its texts replaces it and never changes it in place.

    Args:
        attribute: the one of the table's type that holds the entries by name.
    """

    def __init__(self, attribute: str) -> None:
        self._attribute = attribute
        self._kept: dict[str, tuple[Body, fastjson.Written]] = {}

    def to_plain(self, content: Body) -> dict[str, Any]:
        """Give a table as ``to_plain`` does, with its entries written already."""
        entries: dict[str, Body] = getattr(content, self._attribute)
        self._kept = {name: self._pair(name, entry) for name, entry in entries.items()}  # without those gone
        plain: dict[str, Any] = to_plain(replace(content, **{self._attribute: {}}))
        plain[wire_name(type(content), self._attribute)] = {
            name: text for name, (_, text) in self._kept.items()
        }
        return plain

    def text_of(self, name: str, entry: Body) -> fastjson.Written:
        """Give an entry as it stands in the table's file."""
        pair = self._kept[name] = self._pair(name, entry)
        return pair[1]

    def _pair(self, name: str, entry: Body) -> tuple[Body, fastjson.Written]:
        kept = self._kept.get(name)
        if kept is not None and kept[0] is entry:
            return kept
        text = fastjson.dumps(to_plain(entry), pretty=True, level=ENTRY_LEVEL)
        return entry, fastjson.Written(text)


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


def save(table: JsonTable, content: Body, texts: EntryTexts | None = None) -> None:
    """Replace the table's content. Raises StoreNotWritable if the disk refuses: the old content stays."""
    try:
        table.save(texts.to_plain(content) if texts else to_plain(content))
    except OSError as error:
        raise StoreNotWritable(describe(error, table.path.parent)) from error
