"""Copy entries to ``setaside/`` before recovery cuts them, if the log does not hold their records.

Most entries that recovery cuts it writes again, from the log. The others point to records that are not there:
the log was cut, restored from an older copy, or lost its end with the power. A copy says which they were.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from cometmq.logs import get_logger
from cometmq.store.files.set_aside import copy_aside
from cometmq.store.index.index_file import behind
from cometmq.store.log.vouched import vouched_start
from cometmq.store.parts import Parts

KEYS_MAX: Final = 1_000_000
"""Most index entries, the newest, that are held until it is known whether the log has their records."""
NAMED_MAX: Final = 5
"""Most queues or files that a warning names."""

_log = get_logger(__name__)

Pieces = Iterable[tuple[str, bytes]]
"""Entries of one file each, and the name for their copy."""


def unsure_keys(parts: Parts, *, clean: bool) -> list[tuple[str, bytes]]:
    """Return the newest index entries that an unclean start cuts, by the names of their files."""
    if parts.index is None or clean:
        return []
    return parts.index.newest_entries(vouched_start(parts.log, parts.checkpoint.value), KEYS_MAX)


def set_aside_keys(parts: Parts, unsure: Pieces, end: int) -> None:
    """Copy index entries of records behind the log's end: those that are still there, and the unsure ones."""
    if parts.index is not None:
        there = parts.index.newest_entries(end, KEYS_MAX)
        pieces = ((f"entries-of-index-{name}", behind(data, end)) for name, data in (*unsure, *there))
        _copy_aside("index entries", parts, pieces, end)


def set_aside_entries(parts: Parts, end: int) -> None:
    """Copy what is about to be cleared behind the queues' ends: it was not written again from the log."""
    pieces = (
        (f"entries-of-consumequeue-{queue.topic}-{queue.queue_id}-{at:020d}", data)
        for queue in parts.queues
        for at, data in queue.behind_end()
    )
    _copy_aside("queue entries", parts, pieces, end)


def some_of(names: Sequence[str]) -> str:
    """Join the first names, for a log line."""
    return ", ".join(names[:NAMED_MAX]) + (", …" if len(names) > NAMED_MAX else "")


def _copy_aside(what: str, parts: Parts, pieces: Pieces, end: int) -> None:
    layer, root = parts.files.layer, parts.root
    copied = [copy_aside(layer, root, name, data) for name, data in pieces if data]
    if copied:
        _log.warning(
            "%s have no records in the log, which ends at %d: they are now in %s: %s",
            what,
            end,
            copied[0].parent,
            some_of([path.name for path in copied]),
        )
