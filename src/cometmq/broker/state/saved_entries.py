"""Entries by name that a table on the disk keeps, changed in the loop and written in a thread.

Theory of operation: a change holds in memory at once. All changes of one turn of the loop are one write, one
write is under way at a time, and what changes meanwhile is the next one; so what a write costs is shared by
all who wait for it, and the loop waits for none. Who must not be answered before the disk has a change waits
for it (``Change.when_saved``).

If the disk refuses, a change is taken back and who waits is told why. Changes that are ``optional``, those
that reading needs, stay in memory all the same and are tried again.

What belongs to entries that are removed is deleted first (``delete_data``): no later change is saved before
that is done. So an entry that is made anew, under the same name, finds nothing of the one before it; and one
whose removal is refused only after that is there again, without what belonged to it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Generic

from cometmq.broker.state.saved import EntryFile
from cometmq.errors import StoreNotWritable
from cometmq.wire.bodies import Body
from cometmq.wire.bodies.body import BodyType

RETRY_S: Final = 5.0
"""Until the next try to write what is in memory only, if nothing changes before."""

Saved = Callable[[StoreNotWritable | None], None]

_log = logging.getLogger(__name__)


class Change(Generic[BodyType]):
    """Changes that are written together, and who waits for them.

    Attributes:
        entries: what changed; None for what is gone.
        before: what was there, for those that are taken back if they cannot be written.
        is_optional: some of them are not taken back.
        created: the names that were not there, or not there for good yet.
        removed: the names of entries that were removed, though they may be there again.
        is_saved: the disk has them, or has refused them.
        is_known: and all who are to know of them know.
    """

    def __init__(self) -> None:
        self.entries: dict[str, BodyType | None] = {}
        self.before: dict[str, BodyType | None] = {}
        self.created: set[str] = set()
        self.removed: dict[str, None] = {}
        self.is_optional = False
        self.is_saved = False
        self.is_known = False
        self._error: StoreNotWritable | None = None
        self._when_saved: list[Saved] = []
        self._when_known: list[Callable[[], None]] = []

    def when_saved(self, action: Saved) -> None:
        """Call ``action`` once the disk has the change, with None, or has refused it, with the reason."""
        if self.is_saved:
            action(self._error)
        else:
            self._when_saved.append(action)

    def when_known(self, action: Callable[[], None]) -> None:
        """Call ``action`` once all who are to know of the change do, or have had time enough."""
        if self.is_known:
            action()
        else:
            self._when_known.append(action)

    def note_saved(self, error: StoreNotWritable | None) -> None:
        """Call those who wait for the disk."""
        self.is_saved, self._error = True, error
        actions, self._when_saved = self._when_saved, []
        for action in actions:
            action(error)

    def note_known(self) -> None:
        """Call those who wait until others know."""
        self.is_known = True
        actions, self._when_known = self._when_known, []
        for action in actions:
            action()


class SavedEntries(Generic[BodyType]):
    """The entries of one table.

    Args:
        rest: gives the table as it is now; its entries do not count.
        entries: those that are there from the start.
        publish: makes a change known to all who are to know of it, and calls ``note_known`` then; by default
            nobody else is to know.

    Attributes:
        entries: all of them by name; changed here only.
        on_undone: called with the names of entries that are as they were before a change.
        delete_data: deletes what belongs to entries of these names. Raises StoreNotWritable.
    """

    def __init__(
        self,
        file: EntryFile[BodyType],
        rest: Callable[[], Body],
        entries: dict[str, BodyType],
        publish: Callable[[Change[BodyType]], None] | None = None,
    ) -> None:
        self.entries = entries
        self.on_undone: Callable[[Collection[str]], None] = lambda _: None
        self.delete_data: Callable[[Collection[str]], Awaitable[None]] = _nothing
        self._file = file
        self._rest = rest
        self._publish = publish or self.note_known
        self._unwritten: dict[str, BodyType | None] | None = None  # what the file's texts lack; at first all
        self._next: Change[BodyType] | None = None
        self._is_behind = False  # something is in memory only
        self._unfinished: dict[str, Change[BodyType]] = {}
        self._writing: asyncio.Task[None] | None = None
        self._retry: asyncio.TimerHandle | None = None

    def change(self, entries: Mapping[str, BodyType | None], *, optional: bool = False) -> Change[BodyType]:
        """Change entries at once, and have them written soon.

        Args:
            entries: what is new of each name; None to remove it.
            optional: these stay in memory if they cannot be written.
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
        change = Change[BodyType]()
        change.entries, change.created = dict(self.entries), set(self.entries)
        change.note_saved(None)
        self._unfinished = dict.fromkeys(self.entries, change) | self._unfinished
        self._publish(change)

    def unfinished(self, name: str) -> Change[BodyType] | None:
        """Return the last change of an entry, unless all who are to know of it do."""
        return self._unfinished.get(name)

    def when_saved(self, name: str, action: Saved) -> None:
        """Call ``action`` as the last change of an entry does, or at once if that is over."""
        change = self._unfinished.get(name)
        if change is None:
            action(None)
        else:
            change.when_saved(action)

    def note_known(self, change: Change[BodyType]) -> None:
        """Call those who wait until all who are to know of a change do."""
        for name in change.entries:
            if self._unfinished.get(name) is change:
                del self._unfinished[name]
        change.note_known()

    async def settled(self) -> None:
        """Wait until nothing is left to write, or what is left cannot be written now."""
        while self._writing is not None:
            await asyncio.shield(self._writing)
            if self._next is None:
                return

    async def stop(self) -> None:
        """Write what is left, and try nothing again after that."""
        if self._is_behind:
            self._write_soon()
        await self.settled()
        if self._retry is not None:
            self._retry.cancel()

    def _put(self, name: str, entry: BodyType | None) -> None:
        if entry is None:
            self.entries.pop(name, None)
        else:
            self.entries[name] = entry

    def _write_soon(self) -> None:
        """Begin to write in the next turn of the loop, unless a write is under way: that goes on with it."""
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

    async def _delete_data(self, change: Change[BodyType]) -> StoreNotWritable | None:
        """Delete what belongs to entries that a change removed; return why that cannot be."""
        if not change.removed:
            return None
        try:
            await self.delete_data(change.removed)
        except StoreNotWritable as error:
            return error
        return None

    def _begin_write(self) -> tuple[Change[BodyType], Callable[[], StoreNotWritable | None]]:
        """Return what has changed, and what writes it in any thread and returns why it could not."""
        change, self._next = self._next or Change(), None
        unwritten = dict(self.entries) if self._unwritten is None else self._unwritten | change.entries
        self._unwritten = {}
        return change, partial(_written, self._file, self._rest(), unwritten)

    def _end_write(self, change: Change[BodyType], error: StoreNotWritable | None) -> None:
        if error is None:
            self._is_behind = False
        else:
            self._note_refused(change, error)
        change.note_saved(error)
        self._publish(change)

    def _note_refused(self, change: Change[BodyType], error: StoreNotWritable) -> None:
        """Undo a change, but for what stays in memory."""
        if change.is_optional and not self._is_behind:
            _log.error("what reading needs is in memory only, and tried again: %s", error)
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


def _written(
    file: EntryFile[BodyType], rest: Body, changes: Mapping[str, BodyType | None]
) -> StoreNotWritable | None:
    try:
        file.write(rest, changes)
    except StoreNotWritable as error:
        return error
    return None


def when_all_published(changes: Sequence[Change[Any]], action: Saved) -> None:
    """Call ``action`` when all of these changes are saved and known, or with why one cannot be saved."""
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
    """Nothing belongs to the entries."""


def when_all_known(changes: Iterable[Change[Any]], action: Callable[[], None]) -> None:
    """Call ``action`` once all who are to know of these changes do."""
    left = [change for change in dict.fromkeys(changes) if not change.is_known]
    if left:
        left[0].when_known(partial(when_all_known, left[1:], action))
    else:
        action()
