from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cometmq.broker.state.changing_table import ChangingTable
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable

MANY = 1_000


class Counters(ChangingTable[str, int]):
    """A table of numbers by name, that notes what it has copied and what was made text."""

    def __init__(self, table: JsonTable) -> None:
        super().__init__(table)
        self.counts: dict[str, int] = {}
        self.copied: list[str] = []
        self.texts: list[int] = []

    def load(self) -> None:
        content = self._table.load()
        self.counts = {} if content is None else content["counts"]
        self._add_loaded(self.counts)

    def add(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        self._changes[name] = None

    def remove(self, name: str) -> None:
        del self.counts[name]
        self._changes[name] = None

    def _copy_of(self, name: str) -> int | None:
        self.copied.append(name)
        return self.counts.get(name)

    def _plain(self, entry: int) -> int:
        self.texts.append(entry)
        return entry

    def _whole(self, entries: Mapping[str, Any]) -> dict[str, Any]:
        return {"counts": dict(entries)}


def counters(directory: Path) -> Counters:
    table = Counters(JsonTable(Disk(), directory / "counts.json"))
    table.load()
    return table


def on_disk(directory: Path) -> Any:
    return JsonTable(Disk(), directory / "counts.json").load()


def test_only_a_change_is_written_and_only_once(tmp_path: Path) -> None:
    table = counters(tmp_path)
    table.save()
    assert list(tmp_path.iterdir()) == []
    table.add("a")
    assert table.changed
    assert table.take_changed() == {"a": 1}
    assert table.take_changed() is None and not table.changed


def test_a_copy_is_written_as_it_was_taken_and_later_changes_are_due(tmp_path: Path) -> None:
    table = counters(tmp_path)
    table.add("a")
    copy = table.take_changed()
    table.add("a")
    assert copy is not None
    table.write(copy)
    assert on_disk(tmp_path) == {"counts": {"a": 1}}
    assert table.take_changed() == {"a": 2}


def test_a_write_that_fails_is_due_again(tmp_path: Path) -> None:
    table = counters(tmp_path)
    table.add("a")
    (tmp_path / "counts.json").mkdir()
    with pytest.raises(OSError, match="directory"):
        table.save()
    assert table.changed
    (tmp_path / "counts.json").rmdir()
    table.save()
    assert on_disk(tmp_path) == {"counts": {"a": 1}} and not table.changed


def test_what_is_gone_is_not_in_the_file(tmp_path: Path) -> None:
    table = counters(tmp_path)
    for name in "abc":
        table.add(name)
    table.save()
    table.remove("b")
    table.save()
    assert on_disk(tmp_path) == {"counts": {"a": 1, "c": 1}}


def test_a_write_costs_what_has_changed_and_nothing_for_the_rest(tmp_path: Path) -> None:
    table = counters(tmp_path)
    for n in range(MANY):
        table.add(f"n{n}")
    table.save()
    again = counters(tmp_path)
    for each in (table, again):
        each.copied.clear()
        each.texts.clear()
        each.add("n5")
        each.add("n5")
        each.save()
        assert (each.copied, each.texts) == (["n5"], [each.counts["n5"]])
        content = on_disk(tmp_path)["counts"]
        assert len(content) == MANY and content["n5"] == each.counts["n5"]
