"""How the members of groups get the messages of topics: ``config/messageRequestMode.json``.

::

    {"messageRequestModeMap": {topic: {group: {"consumerGroup": …, "mode": "POP", "popShareQueueNum": 8, …}}}}

(RocketMQ: MessageRequestModeManager.java.)
"""

from collections.abc import Mapping
from typing import Any

from cometmq.broker.state import table_files
from cometmq.broker.state.changing_table import ChangingTable
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import MessageModeRequest, MessageModes, to_plain

_Modes = dict[str, MessageModeRequest]


class RequestModes(ChangingTable[str, _Modes]):
    """The modes that operators have set, by topic and group."""

    def __init__(self, table: JsonTable) -> None:
        super().__init__(table)
        self._modes: dict[str, _Modes] = {}

    def load(self) -> None:
        """Read the table. Raises StoreDamaged if the file holds something else than modes."""
        content = table_files.load(self._table, MessageModes)
        if content is not None:
            self._modes = content.modes
            self._add_loaded(self._modes)

    def find(self, topic: str, group: str) -> MessageModeRequest | None:
        """Return the mode of a group in a topic; None if none was set."""
        return self._modes.get(topic, {}).get(group)

    def put(self, topic: str, group: str, mode: MessageModeRequest | None) -> None:
        """Set the mode of a group in a topic, or remove it."""
        modes = self._modes.setdefault(topic, {})
        if mode is None:
            modes.pop(group, None)
        else:
            modes[group] = mode
        if not modes:
            del self._modes[topic]
        self._changes[topic] = None

    def delete(self, topic: str) -> bool:
        """Remove the modes of a topic; return whether there were any."""
        if self._modes.pop(topic, None) is None:
            return False
        self._changes[topic] = None
        return True

    def as_table(self) -> MessageModes:
        """Return all modes in RocketMQ's form."""
        return MessageModes(self._modes)

    def _copy_of(self, name: str) -> _Modes | None:
        modes = self._modes.get(name)
        return None if modes is None else dict(modes)

    def _plain(self, entry: _Modes) -> Any:
        return to_plain(entry)

    def _whole(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        return {"messageRequestModeMap": dict(entries)}
