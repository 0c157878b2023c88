"""The settings of consumer groups: ``config/subscriptionGroup.json``.

A group is replaced, never changed in place. A change counts up the table's version, is saved, and only
then holds, and the callbacks in ``on_change`` are told; if the disk refuses, nothing changes.
(RocketMQ: SubscriptionGroupManager.java.)
"""

import logging
from collections.abc import Callable, Iterator
from typing import Final

from msgspec.structs import replace

from cometmq.broker import saved
from cometmq.errors import IllegalName
from cometmq.format.layout import valid_group
from cometmq.io.clock import Clock
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import DataVersion, GroupConfig, GroupConfigs

BOOT_GROUPS: Final = (
    "TOOLS_CONSUMER",
    "FILTERSRV_CONSUMER",
    "SELF_TEST_C_GROUP",
    "CID_ONS-HTTP-PROXY",
    "CID_ONSAPI_PULL",
    "CID_ONSAPI_PERMISSION",
    "CID_ONSAPI_OWNER",
    "CID_RMQ_SYS_TRANS",
)
"""Groups that exist without anyone creating them."""

_log = logging.getLogger(__name__)


class Groups:
    """All consumer groups of one broker, by name."""

    def __init__(self, table: JsonTable, clock: Clock, *, auto_create: bool) -> None:
        self.on_change: list[Callable[[], object]] = []
        self._table = table
        self._clock = clock
        self._auto_create = auto_create
        self._version = DataVersion(timestamp=clock.now_ms())
        self._forbidden: dict[str, dict[str, int]] = {}
        self._groups = {name: GroupConfig(group=name) for name in BOOT_GROUPS}
        self._texts = saved.EntryTexts("groups")

    def __iter__(self) -> Iterator[GroupConfig]:
        """Go through the groups."""
        return iter(self._groups.values())

    def load(self) -> None:
        """Read the table. Raises StoreDamaged if the file holds something else than groups."""
        content = saved.load(self._table, GroupConfigs)
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
        """Give a group, or None if there is none of this name."""
        return self._groups.get(name)

    def find_or_create(self, name: str) -> GroupConfig | None:
        """Give a group, created if that is allowed; None if not.

        Raises IllegalName or StoreNotWritable.
        """
        group = self._groups.get(name)
        if group is None and self._auto_create:
            group = self.put(GroupConfig(group=name))
        return group

    def put(self, group: GroupConfig) -> GroupConfig:
        """Create a group, or replace the one of its name; give it.

        Raises IllegalName or StoreNotWritable.
        """
        if self._groups.get(group.group) != group:
            self._change(self._groups | {valid_group(group.group): group})
        return group

    def delete(self, name: str) -> None:
        """Remove a group; no error if there is none."""
        if name in self._groups:
            self._change({other: group for other, group in self._groups.items() if other != name})

    def as_table(self) -> GroupConfigs:
        """Give all groups in RocketMQ's form."""
        return GroupConfigs(self._version, self._forbidden, self._groups)

    def _change(self, groups: dict[str, GroupConfig]) -> None:
        version = self._version.next(self._clock.now_ms())
        saved.save(self._table, GroupConfigs(version, self._forbidden, groups), self._texts)
        self._version = version
        self._groups = groups
        for notice in self.on_change:
            notice()
