"""The files of users and acls: ``config/users.json`` and ``config/acls.json``, for their owner only (0600).

A signature can only be checked with the secret itself, so the file holds the passwords in clear text.

Theory of operation: a change of the directory takes effect at once. All changes of one turn of the loop are
one write in a thread, changes made meanwhile are the next one, and a request is answered when its change is
on the disk. If the disk refuses, all that is not on it is undone.

The acls are written before the users. A crash in between leaves acls of users that do not exist, which a
start drops, or users without their acl, who may do nothing: never a user with the acl of a former one of its
name.

A start never reads the backups by itself: they may have users or rights that were removed since.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from cometmq.access.directory import Directory, Snapshot
from cometmq.access.faults import fault_of
from cometmq.broker.state.saved_entries import SavedCallback
from cometmq.broker.state.table_files import save
from cometmq.errors import AccessError, FormatError, StoreDamaged, StoreNotWritable
from cometmq.logs import get_logger
from cometmq.store.tables import JsonTable

USERS: Final = "users"
"""Name of the table of users, and of its member."""
ACLS: Final = "acls"
"""Name of the table of acls, and of its member."""

_log = get_logger(__name__)


class AccessTables:
    """Saves a directory of users and acls.

    Args:
        users, acls: their files, which should be private.
        elsewhere: returns whether the user of a name is defined elsewhere, and so neither saved here nor
            changed by requests.
        on_undone: called when changes that the disk refused were undone.
    """

    def __init__(
        self,
        directory: Directory,
        users: JsonTable,
        acls: JsonTable,
        elsewhere: Callable[[str], bool] = lambda _: False,
        on_undone: Callable[[], None] = lambda: None,
    ) -> None:
        self._elsewhere = elsewhere
        self._on_undone = on_undone
        self._directory = directory
        self._users = users
        self._acls = acls
        self._saved = directory.snapshot()
        self._is_behind = False
        self._waiting: list[SavedCallback] = []
        self._writing: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Read the files into the directory, and save its changes from now on.

        Entries of acls that match nothing are logged.

        Raises StoreDamaged, with the file and the remedies, if one cannot be used.
        """
        users, acls = _member(self._users, USERS), _member(self._acls, ACLS)
        if lost := sorted(acls.keys() - users.keys()):
            _log.warning("%s: passed over, as there are no such users: %s", self._acls.path, ", ".join(lost))
        try:
            self._directory.restore(users, {name: acl for name, acl in acls.items() if name in users})
        except FormatError as error:
            raise StoreDamaged(
                f"{self._users.path} or {self._acls.path}: {error}; repair it, or put its .bak in its place"
            ) from None
        self._saved = self._directory.snapshot()
        for acl in self._saved.acls.values():
            for entry in (*acl.custom, *acl.default):
                if (fault := fault_of(entry)) is not None:
                    _log.warning("%s: of User:%s: %s", self._acls.path, acl.user, fault)
        self._directory.on_change.append(self._write_soon)

    def check_own(self, name: str) -> None:
        """Check that a user is not defined elsewhere. Raises AccessError."""
        if self._elsewhere(name):
            raise AccessError(f"User:{name} is from plain_acl.yml: change it there")

    def when_saved(self, action: SavedCallback) -> None:
        """Call ``action`` once all changes are on the disk, or with the error if the disk refuses them."""
        if self._writing is None:
            action(None)
        else:
            self._waiting.append(action)

    async def stop(self) -> None:
        """Wait until all changes are saved, or refused."""
        if self._writing is not None:
            await self._writing

    def _write_soon(self) -> None:
        self._is_behind = True
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all(), name="save users and acls")

    async def _write_all(self) -> None:
        try:
            while self._is_behind or self._waiting:
                self._is_behind = False
                waiting, self._waiting = self._waiting, []
                content = self._directory.snapshot()
                error = await asyncio.to_thread(self._write, self._own(content), self._own(self._saved))
                if error is None:
                    self._saved = content
                else:
                    waiting += self._undo()
                for action in waiting:
                    action(error)
        finally:
            self._writing = None

    def _own(self, content: Snapshot) -> Snapshot:
        """Return a directory's content without the users that are defined elsewhere."""
        users, acls = content
        return Snapshot(
            {name: user for name, user in users.items() if not self._elsewhere(name)},
            {name: acl for name, acl in acls.items() if not self._elsewhere(name)},
        )

    def _write(self, content: Snapshot, before: Snapshot) -> StoreNotWritable | None:
        """Save both files; if the second is refused, the first is put back as it was ``before``."""
        try:
            save(self._acls, {ACLS: content.plain_acls()})
            save(self._users, {USERS: content.plain_users()})
        except StoreNotWritable as error:
            with suppress(StoreNotWritable):
                save(self._acls, {ACLS: before.plain_acls()})
            return error
        return None

    def _undo(self) -> list[SavedCallback]:
        """Undo all changes that are not on the disk; return the callbacks of those made during the write."""
        waiting, self._waiting = self._waiting, []
        self._directory.revert(self._saved)
        self._is_behind = False
        self._on_undone()
        return waiting


def _member(table: JsonTable, name: str) -> dict[str, Any]:
    """Read a table, and return its only member. Raises StoreDamaged."""
    content = table.load_latest()
    entries = {} if content is None else content.get(name)
    if not isinstance(entries, dict):
        raise StoreDamaged(f"{table.path} has no object {name!r}: repair it, or put its .bak in its place")
    return entries
