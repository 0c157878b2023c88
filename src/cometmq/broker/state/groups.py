"""The settings of consumer groups: ``config/subscriptionGroup.json``.

A group is replaced, never changed in place. A change increments the table's version and takes effect at once,
and the callbacks in ``on_change`` are called; then it is saved. If the disk refuses, an operator's change is
undone; a group that a client has created stays in memory, so that consumers can read from a full disk.
(RocketMQ: SubscriptionGroupManager.java.)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from msgspec.structs import replace

from cometmq.broker.state import table_files
from cometmq.broker.state.saved_entries import Change, SavedEntries, SavedTable
from cometmq.cluster.system_names import BOOT_GROUPS
from cometmq.errors import IllegalName, StoreNotWritable
from cometmq.format.layout import valid_group, valid_topic
from cometmq.io.clock import Clock
from cometmq.logs import get_logger
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import DataVersion, GroupConfig, GroupConfigs

FORBIDDEN_READ: Final = 4
"""The bit of a group and a topic in the file for an operator's order that the group must not read it."""

_log = get_logger(__name__)


class Groups(SavedTable[GroupConfig]):
    """All consumer groups of one broker, by name.

    Attributes:
        on_change: called after each change in memory.
        auto_create: whether clients may create groups.
    """

    def __init__(self, table: JsonTable, clock: Clock, *, auto_create: bool) -> None:
        self.on_change: list[Callable[[], object]] = []
        self._table = table
        self._clock = clock
        self.auto_create = auto_create
        self._version = DataVersion(timestamp=clock.now_ms())
        self._forbidden: dict[str, dict[str, int]] = {}
        self._groups = {name: GroupConfig(group=name) for name in BOOT_GROUPS}
        file = table_files.EntryFile[GroupConfig](table, GroupConfigs, "groups")
        self._saved = SavedEntries(file, self._rest, self._groups)
        self._saved.on_undone = self._update_version

    def __iter__(self) -> Iterator[GroupConfig]:
        """Iterate over the groups."""
        return iter(self._groups.values())

    def load(self) -> None:
        """Read the table. Raises StoreDamaged if the file holds something else than groups."""
        content = table_files.load(self._table, GroupConfigs)
        if content is None:
            return
        self._version = content.data_version
        self._forbidden = content.forbidden
        for name, group in content.groups.items():
            try:
                self._groups[valid_group(name)] = replace(group, group=name)
            except IllegalName as error:
                _log.error("%s: a group is left out: %s", self._table.path, error)

    def find(self, name: str) -> GroupConfig | None:
        """Return a group, or None if there is none of this name."""
        return self._groups.get(name)

    def find_or_create(self, name: str) -> GroupConfig | None:
        """Find a group, or create it if the settings allow that, even if the disk refuses it; None if not.

        Raises IllegalName.
        """
        group = self._groups.get(name)
        if group is None and self.auto_create:
            group = GroupConfig(group=name)
            self._change({valid_group(name): group}, optional=True)
        return group

    def put(self, group: GroupConfig) -> GroupConfig:
        """Create a group, or replace the one of its name; return it. Raises IllegalName."""
        if self._groups.get(group.group) != group:
            self._change({valid_group(group.group): group})
        return group

    def put_all(self, groups: Iterable[GroupConfig]) -> Change[GroupConfig]:
        """Create or replace many groups in one change, and return it. Raises IllegalName; then none is."""
        return self._change({valid_group(group.group): group for group in groups})

    def is_forbidden(self, name: str, topic: str) -> bool:
        """Check whether an operator has forbidden a group to read a topic."""
        return bool(self._forbidden and self._forbidden.get(name, {}).get(topic, 0) & FORBIDDEN_READ)

    def forbid(self, name: str, topic: str, *, is_forbidden: bool) -> Change[GroupConfig]:
        """Forbid a group to read a topic, or allow it again; return the change. Raises IllegalName."""
        was_forbidden = self.is_forbidden(valid_group(name), valid_topic(topic))
        self._set_forbidden(name, topic, is_forbidden=is_forbidden)

        def undo(error: StoreNotWritable | None) -> None:
            if error is not None:
                self._set_forbidden(name, topic, is_forbidden=was_forbidden)
                self._update_version()

        change = self._change({})
        change.when_saved(undo)
        return change

    def delete(self, name: str) -> None:
        """Remove a group, and its data by the callback of ``on_delete``; no error if there is none."""
        if name in self._groups:
            self._change({name: None})

    def follow_master(self, table: GroupConfigs) -> None:
        """Become a copy of the master's groups, with their version; one that it has not is deleted."""
        if table.data_version == self._version:
            return
        changes: dict[str, GroupConfig | None] = dict.fromkeys(self._groups.keys() - table.groups.keys())
        changes |= {
            name: replace(group, group=name) for name, group in table.groups.items() if _is_legal(name)
        }
        self._forbidden, self._version = table.forbidden, table.data_version
        self._saved.change(
            {name: group for name, group in changes.items() if self._groups.get(name) != group}
        )
        for action in self.on_change:
            action()

    def as_table(self) -> GroupConfigs:
        """Return all groups in RocketMQ's form."""
        return GroupConfigs(self._version, self._forbidden, self._groups)

    def _set_forbidden(self, name: str, topic: str, *, is_forbidden: bool) -> None:
        """Set the bit of a group and topic in a new table: a thread may be writing the present one."""
        topics = dict(self._forbidden.get(name, {}))
        bits = topics.pop(topic, 0) & ~FORBIDDEN_READ | (FORBIDDEN_READ if is_forbidden else 0)
        if bits:
            topics[topic] = bits
        others = {other: known for other, known in self._forbidden.items() if other != name}
        self._forbidden = others | ({name: topics} if topics else {})

    def _change(
        self, groups: Mapping[str, GroupConfig | None], *, optional: bool = False
    ) -> Change[GroupConfig]:
        change = self._saved.change(groups, optional=optional)
        self._update_version()
        return change

    def _update_version(self, _: object = None) -> None:
        self._version = self._version.next(self._clock.now_ms())
        for action in self.on_change:
            action()

    def _rest(self) -> GroupConfigs:
        """Return the table without the groups."""
        return GroupConfigs(self._version, self._forbidden)


def _is_legal(name: str) -> bool:
    try:
        return bool(valid_group(name))
    except IllegalName:
        return False
