"""Import a package's public names when they are first used (PEP 562)."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def importer(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Build the ``__getattr__`` of a package, which imports a name when it is first used.

    Args:
        package: the package's ``__name__``.
        homes: for each public name, the module that defines it.
    """

    def get(name: str) -> Any:
        if (home := homes.get(name)) is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    return get
