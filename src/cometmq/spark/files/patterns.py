"""Expand patterns of paths, as Hadoop does: ``broker-*/store``, ``s3://lake/{a,b}/store``.

======  =============================================================
sign    matches
======  =============================================================
*       any characters of a name, or none
?       one character
[a-c]   one character of these; [!a-c] one of the others
{a,b}   one of the texts, which may hold other signs, and ``/``
======  =============================================================

A folder is listed once for each part of a path that has such signs.
"""

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import takewhile
from pathlib import Path
from typing import Final

from cometmq.errors import SettingsError
from cometmq.io.regular import NotRegularFile
from cometmq.spark.files.remote import Listed, listing, path_of

ANY_DEPTH: Final = "**"
ALTERNATIVES_MAX: Final = 10_000
"""Paths that the braces of one pattern may expand to."""

_SIGNS: Final = re.compile(r"[*?\[{]")
_INNERMOST: Final = re.compile(r"\{([^{}]*)\}", re.DOTALL)


def matching(path: Path) -> list[Listed]:
    """Return the path itself, or if it is a pattern all paths that match it, sorted.

    A path that was not found by a listing counts as a folder. Raises SettingsError if nothing matches.
    """
    if not _SIGNS.search(str(path)) or path.exists():
        return [_unlisted(path)]
    if ANY_DEPTH in str(path):
        raise SettingsError(f"{path}: a pattern cannot hold {ANY_DEPTH}, give * for each folder on the way")
    patterns = map(path_of, _alternatives(str(path)))
    found = {one.path: one for pattern in patterns for one in _expanded(type(path)(), pattern.parts)}
    if not found:
        raise SettingsError(f"{path}: nothing matches this pattern")
    return [found[one] for one in sorted(found)]


def _alternatives(text: str) -> list[str]:
    """Expand the braces of a text."""
    made, left = list[str](), [text]
    while left:
        one = left.pop()
        braces = _INNERMOST.search(one)
        if braces is None:
            made.append(one)
            continue
        left += [one[: braces.start()] + part + one[braces.end() :] for part in braces[1].split(",")]
        if len(made) + len(left) > ALTERNATIVES_MAX:
            raise SettingsError(f"{text}: the braces stand for more than {ALTERNATIVES_MAX} paths, use *")
    return made


def _expanded(base: Path, parts: tuple[str, ...]) -> Iterator[Listed]:
    """Iterate over the files and folders in ``base`` that match the parts of a pattern."""
    plain = tuple(takewhile(lambda part: not _SIGNS.search(part), parts))
    folder, signs = base.joinpath(*plain), parts[len(plain) :]
    if not signs:
        if folder.exists():
            yield _unlisted(folder)
        return
    for one in _children(folder):
        is_hidden = one.path.name.startswith(".") and not signs[0].startswith(".")
        if is_hidden or not fnmatchcase(one.path.name, signs[0]):
            continue
        if signs[1:]:
            yield from _expanded(one.path, signs[1:])
        else:
            yield one


def _children(folder: Path) -> list[Listed]:
    try:
        return [one for one in listing(folder) if one.path != folder]
    except (FileNotFoundError, NotADirectoryError, NotRegularFile):
        return []


def _unlisted(path: Path) -> Listed:
    return Listed(path, 0, is_file=False)
