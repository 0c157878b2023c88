"""Tables that change all the time: written now and then in a thread, and once more at the stop."""

from abc import ABC, abstractmethod
from typing import Any

from cometmq.errors import StoreNotWritable
from cometmq.store.tables import JsonTable


class ChangingTable(ABC):
    """What has changed since it was last written. The loop changes it; any thread may write a copy."""

    def __init__(self, table: JsonTable) -> None:
        self._table = table
        self._changed = False

    @abstractmethod
    def as_plain(self) -> dict[str, Any]:
        """Give a copy of the table in RocketMQ's form."""

    @property
    def changed(self) -> bool:
        """Whether anything changed since it was last written."""
        return self._changed

    def take_changed(self) -> dict[str, Any] | None:
        """Give a copy to write if anything changed since the last time."""
        if not self._changed:
            return None
        self._changed = False
        return self.as_plain()

    def write(self, copy: dict[str, Any]) -> None:
        """Write a copy, in any thread. Raises OSError or StoreNotWritable: it is due again then."""
        try:
            self._write(copy)
        except (OSError, StoreNotWritable):
            self._changed = True
            raise

    def save(self) -> None:
        """Write what changed since the last time. Raises OSError or StoreNotWritable."""
        if (copy := self.take_changed()) is not None:
            self.write(copy)

    def _write(self, copy: dict[str, Any]) -> None:
        self._table.save(copy)
