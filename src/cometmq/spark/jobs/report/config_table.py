"""Load the JSON tables of a broker from its store's ``config/``, as far as they are readable."""

from pathlib import Path
from typing import TypeVar

import msgspec

from cometmq.errors import FormatError
from cometmq.format import layout
from cometmq.format.java import fastjson
from cometmq.io.files import FileLayer
from cometmq.io.regular import NotRegularFile

T = TypeVar("T", bound=msgspec.Struct)


def load_table(layer: FileLayer, root: Path, name: str, kind: type[T]) -> T:
    """Load the table ``name`` of the store at ``root``, or its backup; without both, an empty ``kind()``."""
    path = layout.config_path(root, name)
    for place in (path, layout.backup_path(path)):
        try:
            return msgspec.convert(fastjson.loads(layer.load(place)), kind, strict=False)
        except (FileNotFoundError, NotRegularFile, FormatError, msgspec.ValidationError):
            continue
    return kind()
