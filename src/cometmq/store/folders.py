"""Listing the folders of a store, where directories that are not the store's own may lie.

A folder that is a file system of its own holds ``lost+found``, which can be neither removed nor, by most
users, read. So directories are passed over where files are looked for, and where directories are, those whose
names cannot be those of topics and queues. They are never opened.
"""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from cometmq.errors import FormatError
from cometmq.format import layout
from cometmq.io.files import FileLayer

LOST_AND_FOUND: Final = "lost+found"

_log = logging.getLogger(__name__)


def files_in(layer: FileLayer, directory: Path, is_named: Callable[[str], bool] | None = None) -> list[str]:
    """List the names in ``directory``, sorted, without those of directories.

    Args:
        is_named: names that it accepts are not looked at: there can be very many of them, and each look is a
            system call. By default all are.
    """
    return [
        name
        for name in layer.names(directory)
        if (is_named is not None and is_named(name)) or not _is_passed_over(layer, directory / name)
    ]


def topics_in(layer: FileLayer, directory: Path) -> Iterator[str]:
    """List the names in a folder of topics, sorted, without directories that no topic is named like."""
    return _children(layer, directory, layout.valid_topic)


def queues_in(layer: FileLayer, directory: Path) -> Iterator[str]:
    """List the names in a topic's folder, sorted, without directories that no queue is named like."""
    return _children(layer, directory, layout.parse_queue_id)


def _children(layer: FileLayer, directory: Path, parse: Callable[[str], object]) -> Iterator[str]:
    for name in layer.names(directory):
        try:
            parse(name)
        except FormatError:
            if _is_passed_over(layer, directory / name):
                continue
        yield name


def _is_passed_over(layer: FileLayer, path: Path) -> bool:
    if not layer.is_directory(path):
        return False
    if path.name not in (LOST_AND_FOUND, layout.DELETED):
        _log.info("%s: is passed over, the store has no such directory", path)
    return True
