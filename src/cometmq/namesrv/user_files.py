"""The users of a name server, read from a broker's files ``config/users.json`` and ``config/acls.json``.

::

    {"users": {"admin": {"password": "SECRET", "type": "Super"}}}

A name server has no users of its own: it reads those of a broker of the same machine, or a copy. It never
writes the files.
"""

import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec

from cometmq.access.directory import Directory
from cometmq.access.users import UserType
from cometmq.errors import FormatError, SettingsError
from cometmq.io.regular import regular_stat
from cometmq.logs import get_logger
from cometmq.wire.acl import Credentials

USERS: Final = "users"
ACLS: Final = "acls"
"""The members of the two files; without a suffix, the name of the second one."""

_log = get_logger(__name__)


class UserFiles:
    """Reads users and what they may do, again whenever the files have changed.

    A file that was there and is missing counts as one that cannot be used, as a disk that is not mounted and
    a copy under way look like that: to remove users, save a file without them.

    Args:
        path: the file of the users, which only its owner may read. It may be missing if there are ``supers``.
        supers: users that may do everything, unless the file has users of their names.

    Attributes:
        directory: the users and their policies.

    Raises:
        SettingsError: a file cannot be used.
    """

    def __init__(self, path: Path | None, supers: Iterable[Credentials] = ()) -> None:
        self.directory = Directory()
        self._paths = () if path is None else (path, path.with_name(f"{ACLS}.json"))
        self._supers = {
            one.access_key: {"password": one.secret_key, "type": UserType.SUPER.value} for one in supers
        }
        if path is not None and not self._supers and not path.exists():
            raise SettingsError(f"file of users {path}: No such file or directory")
        self._stamps = self._current_stamps()
        self._were_there: set[str] = set()
        self._read()

    def refresh(self) -> None:
        """Read the files again if they have changed. Those that cannot be used are logged, without effect."""
        stamps = self._current_stamps()
        if stamps == self._stamps:
            return
        self._stamps = stamps
        try:
            self._read()
        except SettingsError as error:
            _log.warning("%s; the users stay as they were", error)
        else:
            _log.info("read the users again: %d", len(self.directory.users()))

    def _current_stamps(self) -> list[tuple[int, ...]]:
        return [_stamp(path) for path in self._paths]

    def _read(self) -> None:
        read = {}
        for path, name in zip(self._paths, (USERS, ACLS), strict=False):
            member = _member(path, name)
            if member is None and name in self._were_there:
                raise SettingsError(f"file of {name} {path}: is missing, and was there: put it back")
            if member is not None:
                read[name] = member
        users, acls = self._supers | read.get(USERS, {}), read.get(ACLS, {})
        try:
            self.directory.restore(users, {name: acl for name, acl in acls.items() if name in users})
        except FormatError as error:
            raise SettingsError(f"files of users {' and '.join(map(str, self._paths))}: {error}") from None
        self._were_there = set(read)


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what changes with a file's content; nothing if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode


def _member(path: Path, name: str) -> dict[str, Any] | None:
    """Return the only member of a file; None if there is no file. Raises SettingsError."""
    try:
        regular_stat(path)
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SettingsError(f"file of {name} {path}: {error.strerror}") from None
    if os.name == "posix" and mode & 0o077:
        raise SettingsError(
            f"file of {name} {path}: others than its owner may use it (mode {mode:04o}): chmod 600 {path}"
        )
    try:
        return msgspec.json.decode(content, type=dict[str, dict[str, Any]])[name]
    except (msgspec.DecodeError, UnicodeError, RecursionError, KeyError):
        raise SettingsError(f'file of {name} {path}: write {{"{name}": {{"NAME": {{…}}}}}}') from None
