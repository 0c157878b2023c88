"""Load the JSON tables that a broker keeps in its store's ``config/``, as far as they can be read."""

from pathlib import Path
from typing import TypeVar

import msgspec

from cometmq.errors import FormatError
from cometmq.format import layout
from cometmq.format.java import fastjson
from cometmq.io.files import FileLayer

T = TypeVar("T", bound=msgspec.Struct)


def load_table(layer: FileLayer, root: Path, name: str, kind: type[T]) -> T:
    """Return the table ``name`` of the store at ``root``, or its backup.

    If neither can be read the result is ``kind()``: a table without entries.
    """
    path = layout.config_path(root, name)
    for place in (path, layout.backup_path(path)):
        try:
            return msgspec.convert(fastjson.loads(layer.load(place)), kind, strict=False)
        except (FileNotFoundError, FormatError, msgspec.ValidationError):
            continue
    return kind()
