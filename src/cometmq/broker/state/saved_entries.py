"""Entries by name of a table on the disk, changed in the loop and written in a thread.

Theory of operation: a change holds in memory at once. All changes of one turn of the loop are one write, one
write is under way at a time, and changes made meanwhile are the next write; so many changes share the cost of
a write, and the loop waits for none. A response that must not be sent before a change is on the disk waits
for it (``Change.when_saved``).

If the disk refuses, a change is undone and the callbacks get the error. ``optional`` changes, those that
consumers need, stay in memory all the same, and the write is retried.

The data of removed entries is deleted first (``delete_data``): no later change is saved before. So an entry
that is recreated under the same name finds no data of the former one; and if the removal itself is refused
after that, the entry is restored without its data.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic

from cometmq.broker.state.table_files import EntryFile, EntryT
from cometmq.errors import StoreNotWritable
from cometmq.logs import get_logger
from cometmq.wire.bodies import Body

RETRY_S: Final = 5.0
"""Wait before the next try to write what is in memory only, if nothing changes before."""

SavedCallback = Callable[[StoreNotWritable | None], None]
"""Called with None once a change is on the disk, or with the error if the disk refuses."""

_log = get_logger(__name__)


class Change(Generic[EntryT]):
    """Changes that are written together, and the callbacks that wait for them.

    Attributes:
        entries: the changed entries; None for removed ones.
        before: the former entries, of those that are restored if the write fails.
        is_optional: some of the entries are not restored.
        created: the names that did not exist, or whose creation was not yet published.
        removed: the names of entries that were removed, even if they were recreated since.
        is_saved: the write is over, successful or not.
        is_known: the change is published (see ``SavedEntries``), or the time for that is over.
    """

    def __init__(self) -> None:
        self.entries: dict[str, EntryT | None] = {}
        self.before: dict[str, EntryT | None] = {}
        self.created: set[str] = set()
        self.removed: dict[str, None] = {}
        self.is_optional = False
        self.is_saved = False
        self.is_known = False
        self._error: StoreNotWritable | None = None
        self._when_saved: list[SavedCallback] = []
        self._when_known: list[Callable[[], None]] = []

    def when_saved(self, action: SavedCallback) -> None:
        """Call ``action`` once the change is on the disk, or with the error if the disk has refused it."""
        if self.is_saved:
            action(self._error)
        else:
            self._when_saved.append(action)

    def when_known(self, action: Callable[[], None]) -> None:
        """Call ``action`` once the change is published, or the time for that is over."""
        if self.is_known:
            action()
        else:
            self._when_known.append(action)

    def set_saved(self, error: StoreNotWritable | None) -> None:
        """Mark the change as written or refused, and call the callbacks that wait for that."""
        self.is_saved, self._error = True, error
        actions, self._when_saved = self._when_saved, []
        for action in actions:
            action(error)

    def set_known(self) -> None:
        """Mark the change as published, and call the callbacks that wait for that."""
        self.is_known = True
        actions, self._when_known = self._when_known, []
        for action in actions:
            action()


class SavedEntries(Generic[EntryT]):
    """The entries of one table.

    Args:
        rest: returns the table as it is now; its entries are ignored.
        entries: the initial ones.
        publish: publishes a saved change, and calls ``set_known`` then; by default nothing is published.

    Attributes:
        entries: all of them by name; changed here only.
        on_undone: called with the names of entries that were restored.
        delete_data: deletes the data of entries of these names. Raises StoreNotWritable.
    """

    def __init__(
        self,
        file: EntryFile[EntryT],
        rest: Callable[[], Body],
        entries: dict[str, EntryT],
        publish: Callable[[Change[EntryT]], None] | None = None,
    ) -> None:
        self.entries = entries
        self.on_undone: Callable[[Collection[str]], None] = lambda _: None
        self.delete_data: Callable[[Collection[str]], Awaitable[None]] = _nothing
        self._file = file
        self._rest = rest
        self._publish = publish or self.set_known
        self._unwritten: dict[str, EntryT | None] | None = None  # changes that the file lacks; None for all
        self._next: Change[EntryT] | None = None
        self._is_behind = False  # an optional change is in memory only
        self._unfinished: dict[str, Change[EntryT]] = {}
        self._writing: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None

    def change(self, entries: Mapping[str, EntryT | None], *, optional: bool = False) -> Change[EntryT]:
        """Change entries in memory at once, and start to write them.

        Args:
            entries: the new entry of each name; None to remove it.
            optional: whether they stay in memory if they cannot be written.
        """
        change = self._next
        if change is None:
            change = self._next = Change()
        change.is_optional |= optional
        for name, entry in entries.items():
            old = self.entries.get(name)
            if not optional:
                change.before.setdefault(name, old)
            earlier = self._unfinished.get(name)
            if old is None or (earlier is not None and name in earlier.created):
                change.created.add(name)
            if entry is None:
                change.removed[name] = None
            change.entries[name] = entry
            self._unfinished[name] = change
            self._put(name, entry)
        self._write_soon()
        return change

    def announce(self) -> None:
        """Publish all entries, as if they had just been created and saved."""
        change = Change[EntryT]()
        change.entries, change.created = dict(self.entries), set(self.entries)
        change.set_saved(None)
        self._unfinished = dict.fromkeys(self.entries, change) | self._unfinished
        self._publish(change)

    def unfinished(self, name: str) -> Change[EntryT] | None:
        """Return the last change of an entry; None if it is published."""
        return self._unfinished.get(name)

    def when_saved(self, name: str, action: SavedCallback) -> None:
        """Call ``action`` when the last change of an entry is saved: see ``Change.when_saved``."""
        change = self._unfinished.get(name)
        if change is None:
            action(None)
        else:
            change.when_saved(action)

    def set_known(self, change: Change[EntryT]) -> None:
        """Mark a change as published: see ``Change.set_known``."""
        for name in change.entries:
            if self._unfinished.get(name) is change:
                del self._unfinished[name]
        change.set_known()

    async def settled(self) -> None:
        """Wait until all changes are written, or cannot be written now."""
        while self._writing is not None:
            await asyncio.shield(self._writing)
            if self._next is None:
                return

    async def stop(self) -> None:
        """Write all changes, and retry nothing after that."""
        if self._is_behind:
            self._write_soon()
        await self.settled()
        if self._retry is not None:
            self._retry.cancel()

    def _put(self, name: str, entry: EntryT | None) -> None:
        if entry is None:
            self.entries.pop(name, None)
        else:
            self.entries[name] = entry

    def _write_soon(self) -> None:
        """Start to write in the next turn of the loop, or after the write that is under way."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all(), name=f"save {self._file.table.path.name}")

    async def _write_all(self) -> None:
        try:
            while True:
                change, write = self._begin_write()
                error = await self._delete_data(change)
                if error is None:
                    error = await asyncio.to_thread(write)
                else:
                    self._unwritten = None
                self._end_write(change, error)
                if self._next is None:
                    return
        finally:
            self._writing = None
            if self._is_behind:
                self._retry = asyncio.get_running_loop().call_later(RETRY_S, self._write_soon)

    async def _delete_data(self, change: Change[EntryT]) -> StoreNotWritable | None:
        """Delete the data of the entries that a change removed; return the error if that fails."""
        if not change.removed:
            return None
        try:
            await self.delete_data(change.removed)
        except StoreNotWritable as error:
            return error
        return None

    def _begin_write(self) -> tuple[Change[EntryT], Callable[[], StoreNotWritable | None]]:
        """Return the next change, and a function for any thread that writes it and returns its error."""
        change, self._next = self._next or Change(), None
        unwritten = dict(self.entries) if self._unwritten is None else self._unwritten | change.entries
        self._unwritten = {}
        return change, partial(_write, self._file, self._rest(), unwritten)

    def _end_write(self, change: Change[EntryT], error: StoreNotWritable | None) -> None:
        if error is None:
            self._is_behind = False
        else:
            self._undo(change, error)
        change.set_saved(error)
        self._publish(change)

    def _undo(self, change: Change[EntryT], error: StoreNotWritable) -> None:
        """Restore the entries before a refused change; optional ones stay as they are."""
        if change.is_optional and not self._is_behind:
            _log.error("entries that consumers need are in memory only, the write is retried: %s", error)
        self._is_behind |= change.is_optional
        undone = []
        for name, old in change.before.items():
            later = self._next
            if later is not None and name in later.entries:
                if name in later.before:
                    later.before[name] = old
                continue
            self._put(name, old)
            if self._unwritten is not None:
                self._unwritten[name] = old
            undone.append(name)
        if undone:
            self.on_undone(undone)


class SavedTable(Generic[EntryT]):
    """A table whose entries are saved after each change."""

    _saved: SavedEntries[EntryT]

    def on_delete(self, delete_data: Callable[[Collection[str]], Awaitable[None]]) -> None:
        """Set the callback that deletes the data of removed entries; it may raise StoreNotWritable."""
        self._saved.delete_data = delete_data

    def when_saved(self, name: str, action: SavedCallback) -> None:
        """Call ``action`` once an entry is on the disk as it is now, or with the error of the disk."""
        self._saved.when_saved(name, action)

    async def settled(self) -> None:
        """Wait until all changes are saved, or cannot be saved now."""
        await self._saved.settled()

    async def stop(self) -> None:
        """Save all changes."""
        await self._saved.stop()


def _write(
    file: EntryFile[EntryT], rest: Body, changes: Mapping[str, EntryT | None]
) -> StoreNotWritable | None:
    try:
        file.write(rest, changes)
    except StoreNotWritable as error:
        return error
    return None


def when_all_published(changes: Sequence[Change[Any]], action: SavedCallback) -> None:
    """Call ``action`` once all changes are saved and published, or with the error of one that is refused."""
    if not changes:
        action(None)
        return
    change, rest = changes[0], changes[1:]

    def go_on(error: StoreNotWritable | None) -> None:
        if error is None:
            change.when_known(partial(when_all_published, rest, action))
        else:
            action(error)

    change.when_saved(go_on)


async def _nothing(_: Collection[str]) -> None:
    """Delete nothing: the entries have no data."""


def when_all_known(changes: Iterable[Change[Any]], action: Callable[[], None]) -> None:
    """Call ``action`` once all changes are published."""
    left = [change for change in dict.fromkeys(changes) if not change.is_known]
    if left:
        left[0].when_known(partial(when_all_known, left[1:], action))
    else:
        action()
