"""Whether groups pull or pop the messages of a topic: ``config/messageRequestMode.json``.

::

    {"messageRequestModeMap": {topic: {group: {"consumerGroup": group, "mode": "POP", "popShareQueueNum": 8,
                                               "topic": topic}}}}

Operators set the modes; a group without one has the default of the settings. A topic's modes are replaced,
never changed in place. A change takes effect at once, then it is saved; if the disk refuses, it is undone.
The modes of a deleted topic or group are deleted before that deletion is saved; RocketMQ leaves them in the
file. (RocketMQ: MessageRequestModeManager.java.)
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Final, TypeAlias

from cometmq.broker.state import table_files
from cometmq.broker.state.saved_entries import SavedEntries, SavedTable
from cometmq.errors import StoreNotWritable
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import MessageModeRequest, MessageModes

MODES_MAX: Final = 10_000
"""Most modes that are kept, each of one topic and group: they are in one file, and slaves read it whole."""

GroupModes: TypeAlias = dict[str, MessageModeRequest]
"""The modes of one topic, by group."""


class RequestModes(SavedTable[GroupModes]):
    """The modes that operators have set, by topic and group."""

    def __init__(self, table: JsonTable) -> None:
        self._table = table
        self._topics: dict[str, GroupModes] = {}
        file = table_files.EntryFile[GroupModes](table, MessageModes, "modes")
        self._saved = SavedEntries(file, MessageModes, self._topics)

    def load(self) -> None:
        """Read the table. Raises StoreDamaged if the file holds something else than modes."""
        content = table_files.load(self._table, MessageModes)
        if content is not None:
            self._topics.update(content.modes)

    def find(self, topic: str, group: str) -> MessageModeRequest | None:
        """Return the mode that was set for a group and topic, or None."""
        return self._topics.get(topic, {}).get(group)

    def has_room(self, topic: str, group: str) -> bool:
        """Check whether the mode of a group and topic can be set: one more, or one that is set already."""
        count = sum(map(len, self._topics.values()))
        return count < MODES_MAX or self.find(topic, group) is not None

    def put(self, mode: MessageModeRequest) -> None:
        """Set the mode of a group and topic."""
        modes = self._topics.get(mode.topic, {})
        if modes.get(mode.consumer_group) != mode:
            self._saved.change({mode.topic: modes | {mode.consumer_group: mode}})

    def follow_master(self, modes: Mapping[str, GroupModes]) -> None:
        """Become a copy of the master's modes, by topic; those that it has not are deleted."""
        changes: dict[str, GroupModes | None] = dict.fromkeys(self._topics.keys() - modes.keys())
        changes |= {topic: groups for topic, groups in modes.items() if self._topics.get(topic) != groups}
        if changes:
            self._saved.change(changes)

    async def delete_topics(self, topics: Collection[str]) -> None:
        """Delete the modes of topics. Raises StoreNotWritable."""
        await self._delete({topic: None for topic in topics if topic in self._topics})

    async def delete_groups(self, groups: Collection[str]) -> None:
        """Delete the modes of groups. Raises StoreNotWritable."""
        gone = frozenset(groups)
        await self._delete(
            {
                topic: {group: mode for group, mode in modes.items() if group not in gone} or None
                for topic, modes in self._topics.items()
                if not gone.isdisjoint(modes)
            }
        )

    def as_table(self) -> MessageModes:
        """Return all modes in RocketMQ's form; later changes do not show in it."""
        return MessageModes(dict(self._topics))

    async def _delete(self, entries: Mapping[str, GroupModes | None]) -> None:
        """Change topics, and wait until that is on the disk. Raises StoreNotWritable."""
        if not entries:
            return
        saved: asyncio.Future[StoreNotWritable | None] = asyncio.get_running_loop().create_future()
        self._saved.change(entries).when_saved(saved.set_result)
        if (error := await saved) is not None:
            raise error
