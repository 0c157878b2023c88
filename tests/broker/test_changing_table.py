from pathlib import Path
from typing import Any

import pytest

from cometmq.broker.changing_table import ChangingTable
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable


class Counter(ChangingTable):
    """A table of one number."""

    count = 0

    def add(self) -> None:
        self.count += 1
        self._changed = True

    def as_plain(self) -> dict[str, Any]:
        return {"count": self.count}


def counter(directory: Path) -> Counter:
    return Counter(JsonTable(Disk(), directory / "count.json"))


def test_only_a_change_is_written_and_only_once(tmp_path: Path) -> None:
    table = counter(tmp_path)
    table.save()
    assert list(tmp_path.iterdir()) == []
    table.add()
    assert table.take_changed() == {"count": 1}
    assert table.take_changed() is None


def test_a_copy_is_written_as_it_was_taken_and_later_changes_are_due(tmp_path: Path) -> None:
    table = counter(tmp_path)
    table.add()
    copy = table.take_changed()
    table.add()
    assert copy is not None
    table.write(copy)
    assert JsonTable(Disk(), tmp_path / "count.json").load() == {"count": 1}
    assert table.take_changed() == {"count": 2}


def test_a_write_that_fails_is_due_again(tmp_path: Path) -> None:
    table = counter(tmp_path)
    table.add()
    (tmp_path / "count.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        table.save()
    assert table.take_changed() == {"count": 1}
