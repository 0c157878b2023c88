"""Keep what a start takes out of a store: it is moved, or copied, to the store's directory ``setaside/``."""

from pathlib import Path
from typing import Final

from cometmq.io.files import FileLayer

SET_ASIDE: Final = "setaside"


def move_aside(layer: FileLayer, root: Path, path: Path) -> Path:
    """Move a file or a directory of the store under ``root``; return its new path. Raises OSError."""
    target = _free(layer, root, "-".join(path.relative_to(root).parts))
    layer.rename(path, target)
    return target


def copy_aside(layer: FileLayer, root: Path, name: str, data: bytes) -> Path:
    """Save bytes that are about to be overwritten; return the path of the file. Raises OSError."""
    target = _free(layer, root, name)
    layer.save(target, data)
    return target


def _free(layer: FileLayer, root: Path, name: str) -> Path:
    """Return a path in ``setaside/`` that is not there yet; the directory is created."""
    target = root / SET_ASIDE / name
    number = 0
    while layer.exists(free := target.with_name(f"{target.name}.{number}")):
        number += 1
    layer.make_directory(free.parent)
    return free
