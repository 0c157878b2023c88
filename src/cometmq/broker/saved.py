"""Tables on the disk as the types that they must have, and what is wrong with them as our errors."""

from cometmq.errors import FormatError, StoreDamaged, StoreNotWritable
from cometmq.store.commit_log import describe
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import Body, from_plain, to_plain
from cometmq.wire.bodies.body import BodyType


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
    try:
        table.save(to_plain(content))
    except OSError as error:
        raise StoreNotWritable(describe(error, table.path.parent)) from error
