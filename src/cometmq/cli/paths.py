"""Paths on the command line."""

import re
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Final

import click

_ADDRESS: Final = re.compile(r"[A-Za-z][A-Za-z0-9+]+://")


class NamedPath(click.Path):
    """The type of a path option, which returns a ``pathlib.Path`` and refuses an empty path.

    A path is often empty because a shell variable is not set.

    Args:
        is_local: refuse the addresses of other file systems, as ``s3://bucket/file``.
    """

    def __init__(self, *, file_okay: bool = True, dir_okay: bool = True, is_local: bool = False) -> None:
        super().__init__(path_type=Path, file_okay=file_okay, dir_okay=dir_okay)
        self._is_local = is_local

    def convert(
        self, value: "str | PathLike[str]", param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Convert the text to a path (called by click)."""
        if not fspath(value):
            self.fail("the path is empty; name a path, or '.' for the current directory", param, ctx)
        if self._is_local and _ADDRESS.match(fspath(value)):
            self.fail(f"{fspath(value)} is an address; name a path on this machine", param, ctx)
        return super().convert(value, param, ctx)
