"""What two stores have in common that must be the same: their CommitLogs, and their queues."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from cometmq.format import layout
from cometmq.store.recovery.rebuild import rebuild
from cometmq.store.settings import StoreSettings

NUMBER: Final = re.compile(rb"number=([0-9a-f]{16});")
"""How ``load`` writes a message's number into its body."""
PIECE: Final = 1 << 20


def first_difference(store: Path, other: Path, end: int) -> int | None:
    """Return the first CommitLog offset before ``end`` at which two logs differ; None if there is none."""
    offset = 0
    for own, its in zip(_pieces(store, end), _pieces(other, end), strict=False):
        if own != its:
            differing = (at for at, pair in enumerate(zip(own, its, strict=False)) if pair[0] != pair[1])
            return offset + next(differing, min(len(own), len(its)))
        offset += len(own)
    return None if offset == end else offset


def numbers_in(store: Path, end: int) -> set[int]:
    """Return the numbers of the messages in a log before an offset."""
    return {
        int(number, 16)
        for path, size in _files(store, end)
        for number in NUMBER.findall(path.read_bytes()[:size])
    }


def queues_of(store: Path) -> dict[str, bytes]:
    """Return the entries of each file of a store's queues; files without entries are left out."""
    folder = layout.consume_queues_dir(store)
    files = (path for path in folder.rglob("*") if path.is_file())
    entries = {str(path.relative_to(folder)): path.read_bytes().rstrip(b"\0") for path in files}
    return {name: found for name, found in entries.items() if found}


def rebuilt_queues(store: Path, settings: StoreSettings, place: Path) -> dict[str, bytes]:
    """Return the same as it is rebuilt from the log alone, in a folder that is made."""
    log = layout.commitlog_dir(place)
    log.mkdir(parents=True)
    for path in layout.commitlog_dir(store).iterdir():
        (log / path.name).hardlink_to(path)  # they are only read
    rebuild(place, settings)
    return queues_of(place)


def _pieces(store: Path, end: int) -> Iterator[bytes]:
    for path, size in _files(store, end):
        with path.open("rb") as file:
            for at in range(0, size, PIECE):
                yield file.read(min(PIECE, size - at))


def _files(store: Path, end: int) -> Iterator[tuple[Path, int]]:
    """Yield the files of a log, and how much of each lies before an offset; a gap ends them."""
    offset = 0
    for path in sorted(layout.commitlog_dir(store).iterdir()):
        if not layout.is_offset_name(path.name) or layout.parse_offset_name(path.name) != offset:
            return
        size = path.stat().st_size
        if offset < end:
            yield path, min(size, end - offset)
        offset += size
