"""List the folders of a store without directories that are not the store's own.

A mount point holds ``lost+found``, which most users can neither remove nor read. So listing files skips
directories, and listing topics or queues skips directories whose names cannot be theirs. They are not opened.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from cometmq.errors import FormatError
from cometmq.format import layout
from cometmq.io.files import FileLayer
from cometmq.logs import get_logger

LOST_AND_FOUND: Final = "lost+found"

_log = get_logger(__name__)


def files_in(layer: FileLayer, directory: Path, is_named: Callable[[str], bool] | None = None) -> list[str]:
    """List the names in ``directory``, sorted, without those of directories.

    Args:
        is_named: names that it accepts count as files unchecked, since each check is a system call and there
            can be very many names. By default all names are checked.
    """
    return [
        name
        for name in layer.names(directory)
        if (is_named is not None and is_named(name)) or not _is_skipped(layer, directory / name)
    ]


def topics_in(layer: FileLayer, directory: Path) -> Iterator[str]:
    """List the names in a folder of topics, sorted, without directories whose name no topic can have.

    Those of light queues count as topics.
    """
    return _children(layer, directory, layout.queues_name)


def queues_in(layer: FileLayer, directory: Path) -> Iterator[str]:
    """List the names in a topic's folder, sorted, without directories whose name no queue can have."""
    return _children(layer, directory, layout.parse_queue_id)


def _children(layer: FileLayer, directory: Path, parse: Callable[[str], object]) -> Iterator[str]:
    for name in layer.names(directory):
        try:
            parse(name)
        except FormatError:
            if _is_skipped(layer, directory / name):
                continue
        yield name


def _is_skipped(layer: FileLayer, path: Path) -> bool:
    if not layer.is_directory(path):
        return False
    if path.name not in (LOST_AND_FOUND, layout.DELETED):
        _log.info("%s: is skipped, the store has no such directory", path)
    return True
