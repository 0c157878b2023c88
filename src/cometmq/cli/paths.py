"""Paths on the command line."""

from os import PathLike, fspath
from pathlib import Path
from typing import Any

import click


class NamedPath(click.Path):
    """The type of a path option, which returns a ``pathlib.Path`` and refuses an empty path.

    A path is often empty because a shell variable is not set.
    """

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file_okay, dir_okay=dir_okay)

    def convert(
        self, value: "str | PathLike[str]", param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Convert the text to a path (called by click)."""
        if not fspath(value):
            self.fail("the path is empty; name a path, or '.' for the current directory", param, ctx)
        return super().convert(value, param, ctx)
