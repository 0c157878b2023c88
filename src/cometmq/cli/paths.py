"""Paths on the command line."""

from os import PathLike, fspath
from pathlib import Path
from typing import Any

import click


class NamedPath(click.Path):
    """A path, given as a ``pathlib.Path``; an empty one, as of a variable that is not set, is refused."""

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, file_okay=file_okay, dir_okay=dir_okay)

    def convert(
        self, value: "str | PathLike[str]", param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Give the path (called by click)."""
        if not fspath(value):
            self.fail("it is empty; name a path, or '.' for the current directory", param, ctx)
        return super().convert(value, param, ctx)
