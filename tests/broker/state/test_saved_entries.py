"""Entries that are changed in the loop and written in a thread."""

import asyncio
import threading
from collections.abc import Collection
from pathlib import Path

import pytest
from tests.kit.stores import HeldDisk

from cometmq.broker.state import saved_entries, table_files
from cometmq.broker.state.saved_entries import Change, SavedEntries, when_all_known
from cometmq.broker.state.table_files import EntryFile, load
from cometmq.errors import StoreNotWritable
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.bodies import Body, TopicConfig, TopicTable

PATH = Path("/store/config/topics.json")


def entries_on(disk: MemoryDisk | Disk, path: Path = PATH) -> SavedEntries[TopicConfig]:
    file = EntryFile[TopicConfig](JsonTable(disk, path), TopicTable, "topics")
    return SavedEntries(file, TopicTable, {"Boot": topic("Boot")})


def topic(name: str, perm: int = 6) -> TopicConfig:
    return TopicConfig(topic=name, perm=perm)


def on_disk(disk: MemoryDisk | Disk, path: Path = PATH) -> dict[str, int]:
    """Return the topics in the file, with their perm."""
    content = load(JsonTable(disk, path), TopicTable)
    return {} if content is None else {name: entry.perm for name, entry in content.topics.items()}


async def test_all_changes_of_a_turn_are_one_write_and_none_holds_up_the_loop() -> None:
    disk = HeldDisk()
    entries = entries_on(disk)
    disk.gate.clear()
    changes = [entries.change({f"T{n}": topic(f"T{n}")}) for n in range(800)]
    assert len(set(map(id, changes))) == 1 and "T799" in entries.entries
    told: list[StoreNotWritable | None] = []
    changes[0].when_saved(told.append)
    assert told == [] and not changes[0].is_saved
    disk.gate.set()
    await entries.settled()
    assert disk.saved == [PATH] and told == [None]
    assert threading.current_thread() not in disk.threads
    assert list(on_disk(disk)) == ["Boot", *(f"T{n}" for n in range(800))]


async def test_what_changes_during_a_write_is_the_next_one() -> None:
    disk = HeldDisk()
    entries = entries_on(disk)
    told: list[str] = []
    disk.gate.clear()
    entries.change({"A": topic("A")}).when_saved(lambda _: told.append(f"A {sorted(on_disk(disk))}"))
    while entries._next is not None:
        await turn()
    for name in ("B", "C"):
        change = entries.change({name: topic(name)})
        change.when_saved(lambda _: told.append(f"BC {sorted(on_disk(disk))}"))
    assert entries.unfinished("A") is not entries.unfinished("B")
    disk.gate.set()
    await entries.settled()
    assert told == ["A ['A', 'Boot']", "BC ['A', 'B', 'Boot', 'C']", "BC ['A', 'B', 'Boot', 'C']"]
    assert len(disk.saved) == 3, "the table, then its backup and the table"


async def turn() -> None:
    """Run one turn of the loop."""
    waiter = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(waiter.set_result, None)
    await waiter


async def test_a_write_makes_text_of_what_has_changed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = HeldDisk()
    entries = entries_on(disk)
    for n in range(100):
        entries.change({f"T{n}": topic(f"T{n}")})
    await entries.settled()
    made: list[str] = []
    text_of = table_files._text_of

    def listen(name: str, entry: Body) -> str:
        made.append(name)
        return text_of(name, entry)

    monkeypatch.setattr(table_files, "_text_of", listen)
    entries.change({"T5": topic("T5", 4), "T6": None})
    await entries.settled()
    assert made == ["T5"]
    assert on_disk(disk)["T5"] == 4 and "T6" not in on_disk(disk) and len(on_disk(disk)) == 100


async def test_what_belongs_to_removed_entries_is_deleted_before_anything_later_is_saved() -> None:
    disk = HeldDisk()
    entries = entries_on(disk)
    may_end, asked = asyncio.Event(), list[list[str]]()

    async def delete(names: Collection[str]) -> None:
        asked.append(list(names))
        await may_end.wait()

    entries.delete_data = delete
    entries.change({"A": topic("A")})
    await entries.settled()
    told: list[str] = []
    entries.change({"A": None, "B": topic("B")}).when_saved(lambda _: told.append("A is gone, and B there"))
    anew = entries.change({"A": topic("A", 4), "Unknown": None})
    anew.when_saved(lambda _: told.append("A is there again"))
    while not asked:
        await turn()
    entries.change({"C": topic("C")}).when_saved(lambda _: told.append("C"))
    assert (asked, told, entries.entries["A"].perm) == ([["A", "Unknown"]], [], 4)
    assert on_disk(disk) == {"Boot": 6, "A": 6}
    may_end.set()
    await entries.settled()
    assert told == ["A is gone, and B there", "A is there again", "C"]
    assert (asked, on_disk(disk)) == ([["A", "Unknown"]], {"Boot": 6, "A": 4, "B": 6, "C": 6})


async def test_a_change_whose_deletions_are_refused_is_taken_back_as_a_whole() -> None:
    disk = HeldDisk()
    entries = entries_on(disk)

    async def refuse(_: Collection[str]) -> None:
        raise StoreNotWritable("full")

    entries.change({"A": topic("A")})
    await entries.settled()
    entries.delete_data = refuse
    told: list[StoreNotWritable | None] = []
    entries.change({"A": None, "B": topic("B")}).when_saved(told.append)
    entries.change({"C": topic("C")}, optional=True)
    await entries.settled()
    assert [str(error) for error in told] == ["full"]
    assert (list(entries.entries), list(on_disk(disk))) == (["Boot", "C", "A"], ["Boot", "A"])
    entries.change({"D": topic("D")})
    await entries.stop()
    assert on_disk(disk).keys() == {"Boot", "A", "C", "D"}


async def test_a_refused_change_is_taken_back_and_one_that_is_optional_stays() -> None:
    disk = HeldDisk()
    entries = entries_on(disk)
    undone: list[str] = []
    entries.on_undone = undone.extend
    entries.change({"A": topic("A")})
    await entries.settled()
    disk.refuses = True
    told: list[StoreNotWritable | None] = []
    change = entries.change({"A": topic("A", 4), "B": topic("B"), "Boot": None})
    change.when_saved(told.append)
    entries.change({"Group": topic("Group")}, optional=True)
    await entries.settled()
    assert isinstance(told[0], StoreNotWritable) and "disk full" in str(told[0])
    assert sorted(undone) == ["A", "B", "Boot"]
    assert entries.entries == {name: topic(name) for name in ("Boot", "A", "Group")}
    assert on_disk(disk) == {"Boot": 6, "A": 6}
    disk.refuses = False
    await entries.stop()
    assert on_disk(disk) == {"Boot": 6, "A": 6, "Group": 6}


async def test_what_is_in_memory_only_is_written_soon_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saved_entries, "RETRY_S", 0.0)
    disk = HeldDisk()
    entries = entries_on(disk)
    disk.refuses = True
    entries.change({"Group": topic("Group")}, optional=True)
    await entries.settled()
    disk.refuses = False
    while "Group" not in on_disk(disk):
        await turn()
    await entries.stop()


async def test_a_change_over_a_refused_one_counts_and_is_taken_back_to_what_the_disk_has() -> None:
    disk = HeldDisk()
    entries = entries_on(disk)
    disk.gate.clear()
    disk.refuses = True
    first = entries.change({"A": topic("A")})
    while entries._next is not None:
        await turn()
    second = entries.change({"A": topic("A", 4)})
    assert "A" in first.created and "A" in second.created
    told: list[StoreNotWritable | None] = []
    second.when_saved(told.append)
    disk.gate.set()
    await entries.settled()
    assert isinstance(told[0], StoreNotWritable)
    assert "A" not in entries.entries and entries.unfinished("A") is None


async def test_who_waits_until_others_know_waits_for_the_disk_before() -> None:
    disk = HeldDisk()
    published: list[Change[TopicConfig]] = []
    file = EntryFile[TopicConfig](JsonTable(disk, PATH), TopicTable, "topics")
    entries = SavedEntries(file, TopicTable, {}, published.append)
    told: list[str] = []
    change = entries.change({"A": topic("A")})
    change.when_saved(lambda _: told.append("saved"))
    when_all_known([change, change], lambda: told.append("known"))
    assert not published
    await entries.settled()
    assert told == ["saved"] and published == [change] and entries.unfinished("A") is change
    entries.set_known(change)
    assert told == ["saved", "known"] and entries.unfinished("A") is None
    when_all_known([change], lambda: told.append("known before"))
    assert told[2:] == ["known before"]
