"""What can be read of a damaged store, in a new one."""

from pathlib import Path

import pytest
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import SettingsError, StoreLocked
from cometmq.format import layout
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.store import MessageStore
from cometmq.store.offline.salvage import Salvaged, salvage
from cometmq.store.verify import State, verify
from cometmq.testing.memory_disk import MemoryDisk

TARGET = Path("/new")
MESSAGES = 100
FILE = SMALL.mapped_file_size_commit_log


@pytest.fixture
def closed(open_store: OpenStore, disk: MemoryDisk, clock: ManualClock) -> MemoryDisk:
    store = open_store()
    for n in range(MESSAGES):
        clock.advance(10)
        store.append([new_message(queue_id=n % 2, body=b"%03d" % n * 60, keys=f"k{n}")])
    store.close()
    return disk


def offset_of(disk: MemoryDisk, number: int) -> int:
    """Where a message lies, by its queue entry."""
    entries = disk.load(layout.consume_queue_path(ROOT, "Orders", number % 2, number // 2 // 20 * 400))
    return int.from_bytes(entries[number // 2 % 20 * 20 :][:8], "big")


def salvaged(disk: MemoryDisk) -> tuple[Salvaged, dict[int, tuple[int, int]]]:
    """Salvage; give where each message that is left is: queue offset and CommitLog offset, by its number."""
    result = salvage(ROOT, TARGET, SMALL, layer=disk)
    assert verify(TARGET, SMALL, layer=disk).state is State.SOUND
    found = {}
    with MessageStore.open(TARGET, SMALL, files=disk, clock=ManualClock(10**13)) as store:
        for queue_id in (0, 1):
            for queue_offset in range(store.max_queue_offset("Orders", queue_id)):
                for data in store.get("Orders", queue_id, queue_offset, 1).records:
                    record = decode(data)
                    found[int(record.body[:3])] = (record.queue_offset, record.physical_offset)
        assert all(len(store.query("Orders", f"k{number}").records) == 1 for number in found)
    return result, found


def test_a_sound_store_is_copied_with_every_offset(closed: MemoryDisk) -> None:
    result, found = salvaged(closed)
    assert (result.messages, result.lost, result.gaps) == (MESSAGES, [], [])
    assert found == {n: (n // 2, offset_of(closed, n)) for n in range(MESSAGES)}


def test_what_lies_before_and_behind_damage_keeps_its_place(closed: MemoryDisk) -> None:
    at = offset_of(closed, 40)
    path = layout.commitlog_path(ROOT, at - at % FILE)
    closed.open(path, writable=True).write(at % FILE + 100, b"?")
    before = {name: closed.load(name) for name in closed._files}
    result, found = salvaged(closed)
    assert found == {n: (n // 2, offset_of(closed, n)) for n in range(MESSAGES) if n != 40}
    ((lost_path, position, size, reason),) = result.lost
    assert (lost_path, position) == (path, at % FILE) and size > 180 and "BODYCRC" in reason
    assert [(gap.queue_id, gap.first, gap.missing) for gap in result.gaps] == [(0, 20, 1)]
    assert {name: closed.load(name) for name in before} == before


def test_a_store_that_lacks_one_file_and_the_end_of_another_does_not_open_but_is_salvaged(
    closed: MemoryDisk,
) -> None:
    starts = [layout.parse_offset_name(name) for name in closed.names(layout.commitlog_dir(ROOT))]
    assert len(starts) > 3
    closed.remove(layout.commitlog_path(ROOT, starts[1]))
    last = layout.commitlog_path(ROOT, starts[-1])
    cut = offset_of(closed, MESSAGES - 1) + 30
    closed.put(last, closed.load(last)[: cut % FILE])
    wanted = [n for n in range(MESSAGES - 1) if not starts[1] <= offset_of(closed, n) < starts[2]]
    result, found = salvaged(closed)
    assert sorted(found) == wanted
    assert [lost.reason.split(" ")[0] for lost in result.lost] == ["the", "TOTALSIZE"]
    assert sum(gap.missing for gap in result.gaps) == MESSAGES - 1 - len(wanted)


def test_tables_come_from_their_backups_if_they_are_damaged(closed: MemoryDisk) -> None:
    path = layout.config_path(ROOT, "topics")
    closed.put(path, b"{")
    closed.put(layout.backup_path(path), b'{"a":1}')
    closed.put(layout.config_path(ROOT, "consumerOffset"), b"")
    result, _ = salvaged(closed)
    assert closed.load(layout.config_path(TARGET, "topics")) == b'{"a":1}'
    assert result.lost_tables == ["consumerOffset.json"]


def test_a_store_that_is_open_or_a_target_that_is_used_is_refused(
    closed: MemoryDisk, open_store: OpenStore
) -> None:
    closed.make_directory(TARGET / "config")
    with pytest.raises(SettingsError, match="is not empty"):
        salvage(ROOT, TARGET, SMALL, layer=closed)
    closed.remove_directory(TARGET / "config")
    store = open_store()
    with pytest.raises(StoreLocked):
        salvage(ROOT, TARGET, SMALL, layer=closed)
    store.close()


@pytest.mark.parametrize(
    ("target", "relation"),
    [
        (ROOT, "is"),
        (ROOT / ".." / ROOT.name, "is"),
        (ROOT / "new", "lies within"),
        (ROOT / "commitlog" / "new", "lies within"),
        (ROOT.parent, "holds"),
    ],
)
def test_a_target_that_is_not_apart_from_the_store_is_refused_and_nothing_is_written(
    closed: MemoryDisk, target: Path, relation: str
) -> None:
    before = {path: bytes(content.data) for path, content in closed._files.items()}
    directories = set(closed._directories)
    with pytest.raises(SettingsError) as raised:
        salvage(ROOT, target, SMALL, layer=closed)
    assert str(raised.value) == (
        f"{target}: {relation} the old store {ROOT}, which is only read: give a new directory outside of it"
    )
    assert {path: bytes(content.data) for path, content in closed._files.items()} == before
    assert closed._directories == directories


@pytest.mark.parametrize("is_source_linked", [False, True])
def test_a_target_that_leads_into_the_store_by_a_link_is_refused(
    tmp_path: Path, *, is_source_linked: bool
) -> None:
    source, link = tmp_path / "store", tmp_path / "link"
    MessageStore.open(source, SMALL).close()
    link.symlink_to(source)
    names = sorted(source.iterdir())
    old, new = (link, source / "new") if is_source_linked else (source, link / "new")
    with pytest.raises(SettingsError, match=f"^{new}: lies within the old store {old},"):
        salvage(old, new, SMALL)
    assert sorted(source.iterdir()) == names


def test_a_target_within_a_log_that_lies_elsewhere_by_a_link_is_refused(tmp_path: Path) -> None:
    source, elsewhere = tmp_path / "store", tmp_path / "big" / "log"
    with MessageStore.open(source, SMALL) as store:
        store.append([new_message()])
    elsewhere.parent.mkdir()
    (source / "commitlog").rename(elsewhere)
    (source / "commitlog").symlink_to(elsewhere)
    with pytest.raises(SettingsError, match="lies within the old store"):
        salvage(source, elsewhere / "new", SMALL)
    assert salvage(source, tmp_path / "big" / "new", SMALL).messages == 1
