"""A CommitLog lies where the settings say: in another directory, or spread over several."""

import errno
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message, settle

from cometmq.errors import SettingsError, StoreDamaged
from cometmq.format import layout
from cometmq.format.record import decode
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk, Usage
from cometmq.io.open_files import OpenFiles
from cometmq.store import GetStatus, MessageStore, StoreSettings
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.sizes import infer_settings
from cometmq.store.files.spread import LogSpread, in_root, spread_of
from cometmq.store.offline.clean import clean
from cometmq.store.offline.find import FindQuery, find
from cometmq.store.offline.salvage import salvage
from cometmq.store.recovery.rebuild import rebuild
from cometmq.store.recovery.truncate import truncate_log
from cometmq.store.upkeep.retention import FIRST_ROUND_MS, HOUR_MS
from cometmq.store.verify import State, verify
from cometmq.testing.memory_disk import MemoryDisk

A, B, C = Path("/disks/a"), Path("/disks/b"), Path("/disks/c")
SPREAD = replace(SMALL, store_path_commit_log=f"{A},{B}")
FILE = SMALL.mapped_file_size_commit_log
BODY = bytes(900)


def fill(store: MessageStore, first: int, count: int) -> None:
    for number in range(first, first + count):
        store.append([new_message(body=b"%06d" % number + BODY, keys=f"k{number}")])


def numbers(store: MessageStore) -> list[int]:
    found, offset = list[int](), 0
    while True:
        result = store.get("Orders", 0, offset)
        found += [int(decode(record).body[:6]) for record in result.records]
        if result.status in (GetStatus.OFFSET_OVERFLOW_ONE, GetStatus.NO_MATCHED_LOGIC_QUEUE):
            return found
        offset = result.next_offset


def in_turns(disk: MemoryDisk, *directories: Path) -> dict[Path, list[int]]:
    """The numbers of the log's files in each directory."""
    return {
        directory: [layout.parse_offset_name(name) // FILE for name in disk.names(directory)]
        for directory in directories
    }


# Which directories


@pytest.mark.parametrize(
    ("named", "read_only", "expected"),
    [
        ("", "", LogSpread((ROOT / "commitlog",))),
        (" /d/x ", "", LogSpread((Path("/d/x"),))),
        ("/d/b,/d/a", "", LogSpread((Path("/d/a"), Path("/d/b")))),
        ("/d/a, /d/b,,/d/a", "", LogSpread((Path("/d/a"), Path("/d/b")))),
        ("/d/a/,/d/a-b", "", LogSpread((Path("/d/a-b"), Path("/d/a")))),  # RocketMQ sorts the texts
        ("/d/b,/d/a", "/d/a", LogSpread((Path("/d/b"),), (Path("/d/a"),))),
        ("/d/a", "/d/z,/d/y", LogSpread((Path("/d/a"),), (Path("/d/y"), Path("/d/z")))),
        ("", "/d/y", LogSpread((ROOT / "commitlog",), (Path("/d/y"),))),
    ],
)
def test_the_settings_name_directories_as_rocketmq_reads_them(
    named: str, read_only: str, expected: LogSpread
) -> None:
    settings = replace(SMALL, store_path_commit_log=named, read_only_commit_log_store_paths=read_only)
    assert spread_of(ROOT, settings) == expected
    assert spread_of(ROOT, in_root(settings)) == LogSpread((ROOT / "commitlog",))


def test_new_files_must_be_able_to_go_somewhere() -> None:
    settings = replace(SPREAD, read_only_commit_log_store_paths=f"{B},{A}")
    with pytest.raises(SettingsError, match=r"readOnlyCommitLogStorePaths = .*nowhere: add another one"):
        spread_of(ROOT, settings)


@pytest.mark.parametrize(
    ("full", "expected"),
    [
        ((), [A, B, C, A]),
        ((B,), [A, C, A, C]),
        ((A, C), [B, B, B, B]),
        ((A, B, C), [A, B, C, A]),
    ],
)
def test_directories_take_turns_by_the_file_s_number_and_full_ones_are_left_out(
    full: tuple[Path, ...], expected: list[Path]
) -> None:
    spread = LogSpread((A, B, C), (Path("/disks/old"),))
    assert [spread.next_directory(number, full) for number in range(4)] == expected


# The files of one log


@given(st.lists(st.sampled_from([A, B, C]), min_size=1, max_size=9), st.integers(0, 3))
def test_a_log_is_found_however_its_files_are_spread(places: list[Path], first: int) -> None:
    disk = MemoryDisk()
    for directory in (A, B, C):
        disk.make_directory(directory)
    starts = [(first + number) * FILE for number in range(len(places))]
    paths = [place / layout.offset_name(start) for start, place in zip(starts, places, strict=True)]
    for path in paths:
        disk.put(path, bytes(FILE))
    chain = LogSpread((A, B), (C,)).chain(OpenFiles(disk, writable=True), FILE, "setting")
    chain.load()
    assert chain.starts == starts
    assert [chain.path(start) for start in starts] == paths
    assert chain.directory == paths[-1].parent
    end = starts[-1] + FILE
    assert chain.path(end) == chain.new_path(end)
    chain.extend()
    assert disk.exists((A, B)[end // FILE % 2] / layout.offset_name(end))


def test_a_file_that_is_there_twice_or_missing_is_an_error() -> None:
    disk = MemoryDisk()
    for path in (A / layout.offset_name(0), B / layout.offset_name(0)):
        disk.make_directory(path.parent)
        disk.put(path, bytes(FILE))
    chain = LogSpread((A, B)).chain(OpenFiles(disk, writable=True), FILE, "setting")
    with pytest.raises(StoreDamaged, match=f"{B}/0+: the log has this file in {A}, too; move the one"):
        chain.load()
    disk.rename(B / layout.offset_name(0), B / layout.offset_name(2 * FILE))
    with pytest.raises(StoreDamaged, match="the file before it ends at 8192"):
        chain.load()


@pytest.mark.parametrize("name", [layout.offset_name(FILE), f"{layout.offset_name(FILE)}.tmp"])
def test_what_a_crash_leaves_while_creating_a_file_is_removed(name: str) -> None:
    disk = MemoryDisk()
    for path, size in ((A / layout.offset_name(0), FILE), (B / name, 0)):
        disk.make_directory(path.parent)
        disk.put(path, bytes(size))
    chain = LogSpread((A, B)).chain(OpenFiles(disk, writable=True), FILE, "setting")
    chain.load()
    assert (chain.starts, disk.names(A), disk.names(B)) == ([0], [layout.offset_name(0)], [])


# A store with such a log


def test_a_spread_log_goes_on_after_a_close_and_a_kill(disk: MemoryDisk, open_store: OpenStore) -> None:
    store = open_store(SPREAD)
    fill(store, 0, 30)
    store.close()
    store = open_store(SPREAD)
    assert store.recovered.clean
    fill(store, 30, 30)
    killed = disk.after_kill()
    store = open_store(SPREAD, killed)
    assert numbers(store) == list(range(60))
    fill(store, 60, 10)
    assert in_turns(killed, A, B) == {A: [0, 2, 4, 6, 8], B: [1, 3, 5, 7]}
    assert not killed.exists(ROOT / "commitlog")
    store.close()
    assert verify(ROOT, SPREAD, layer=killed).state is State.SOUND


def test_a_torn_tail_is_found_in_the_directory_of_the_last_file(
    disk: MemoryDisk, open_store: OpenStore
) -> None:
    store = open_store(SPREAD)
    fill(store, 0, 10)
    end = store.written_offset
    killed = disk.after_kill()
    last = B / layout.offset_name(FILE)
    data = bytearray(killed.load(last))
    data[end - FILE : end - FILE + 4] = b"torn"
    killed.put(last, bytes(data))
    store = open_store(SPREAD, killed)
    assert numbers(store) == list(range(10))
    assert killed.load(ROOT / "setaside" / f"commitlog-{end:020d}")[:4] == b"torn"
    assert killed.load(last)[end - FILE :] == bytes(2 * FILE - end)


def test_a_read_only_directory_gets_no_new_file(disk: MemoryDisk, open_store: OpenStore) -> None:
    store = open_store(replace(SMALL, store_path_commit_log=str(A)))
    fill(store, 0, 12)
    store.close()
    disk.make_directory(B)
    store = open_store(replace(SMALL, store_path_commit_log=str(B), read_only_commit_log_store_paths=str(A)))
    fill(store, 12, 20)
    assert numbers(store) == list(range(32))
    assert in_turns(disk, A, B) == {A: [0, 1], B: [2, 3]}


@pytest.mark.parametrize("lost", [A, B, C])
def test_a_directory_that_is_not_there_is_an_error_before_anything_changes(
    disk: MemoryDisk, open_store: OpenStore, lost: Path
) -> None:
    disk.make_directory(C)
    settings = replace(SPREAD, read_only_commit_log_store_paths=str(C))
    store = open_store(settings)
    fill(store, 0, 30)
    store.close()
    for name in disk.names(lost):
        disk.remove(lost / name)
    disk.remove_directory(lost)
    before = {path: bytes(content.data) for path, content in disk._files.items()}
    for opening in (
        lambda: open_store(settings),
        lambda: StoreDirectory(ROOT, settings, disk),
        lambda: rebuild(ROOT, settings, layer=disk),
        lambda: salvage(ROOT, Path("/salvaged"), settings, layer=disk),
    ):
        with pytest.raises(SettingsError, match=f"{lost}: there is no such directory.*mount it"):
            opening()
    assert {path: bytes(content.data) for path, content in disk._files.items()} == before


def test_the_directories_of_a_new_store_are_created(disk: MemoryDisk, open_store: OpenStore) -> None:
    fill(open_store(SPREAD), 0, 12)
    assert in_turns(disk, A, B) == {A: [0], B: [1]}


def test_a_log_that_is_not_named_is_missed_by_whatever_reads_the_store(
    disk: MemoryDisk, open_store: OpenStore
) -> None:
    store = open_store(SPREAD)
    fill(store, 0, 30)
    store.close()
    readers: list[Callable[[], object]] = [
        lambda: verify(ROOT, layer=disk),
        lambda: rebuild(ROOT, layer=disk),
        lambda: clean(ROOT, layer=disk),
        lambda: salvage(ROOT, Path("/salvaged"), layer=disk),
        lambda: StoreDirectory(ROOT, layer=disk),
    ]
    for reader in readers:
        with pytest.raises(SettingsError, match=r"where is its log.*storePathCommitLog.*--config"):
            reader()


def test_expired_files_go_in_the_order_of_the_log_whatever_directory_they_are_in(
    disk: MemoryDisk, clock: ManualClock, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = replace(SPREAD, delete_file_batch_max=2, disk_max_used_space_ratio=75)
    disk.now_ms = clock.now_ms
    store = open_store(settings)
    fill(store, 0, 50)
    clock.advance(FIRST_ROUND_MS)
    settle(store, clock)
    clock.advance(73 * HOUR_MS)
    stuck = B / layout.offset_name(FILE)
    whole = MemoryDisk.remove

    def refuses(self: MemoryDisk, path: Path, *, durable: bool = True) -> None:
        if path == stuck:
            raise OSError(errno.EBUSY, "busy")
        whole(self, path, durable=durable)

    store.retention.ask()
    with monkeypatch.context() as patched:
        patched.setattr(MemoryDisk, "remove", refuses)
        assert store.retention.run()[0] == A / layout.offset_name(0)
        assert in_turns(disk, A, B) == {
            A: [2, 4, 6],
            B: [1, 3, 5],
        }  # a gap would be worse than a file too many
    store.retention.run()
    assert in_turns(disk, A, B) == {A: [4, 6], B: [5]}
    assert numbers(store)[-1] == 49
    store.close()
    assert verify(ROOT, settings, layer=disk).state is State.SOUND


class TwoDisks(MemoryDisk):
    """Disks as full as a test says, in percent."""

    percent: Mapping[Path, int] = {}

    def usage(self, path: Path) -> Usage:
        used = self.percent.get(path, 10)
        return Usage(used * 10, 1_000 - used * 10)


def test_a_full_disk_gets_no_new_file_and_messages_are_refused_when_all_are_full(
    clock: ManualClock, open_store: OpenStore
) -> None:
    disk = TwoDisks()
    disk.now_ms = clock.now_ms
    store = open_store(SPREAD, disk)
    fill(store, 0, 30)
    assert in_turns(disk, A, B) == {A: [0, 2], B: [1, 3]}
    clock.advance(FIRST_ROUND_MS)
    disk.percent = {A: 95, B: 20}
    store.retention.run()
    fill(store, 30, 30)
    assert in_turns(disk, A, B) == {A: [0, 2], B: [1, 3, 4, 5, 6, 7]}
    assert store.not_writable is None
    disk.percent = {A: 95, B: 91}
    store.retention.run()
    assert f"disk 91 % full under {B}" in str(store.not_writable)
    disk.percent = {A: 20, B: 91}
    store.retention.run()
    assert store.not_writable is None


def test_a_spread_log_is_truncated_across_file_systems(
    disk: MemoryDisk, open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store(SPREAD)
    fill(store, 0, 12)
    cut, whole = store.written_offset, MemoryDisk.rename
    fill(store, 12, 20)
    end = store.written_offset
    store.close()

    def on_one_device(self: MemoryDisk, old: Path, new: Path, *, durable: bool = True) -> None:
        if old.parts[1] != new.parts[1]:
            raise OSError(errno.EXDEV, "Invalid cross-device link")
        whole(self, old, new, durable=durable)

    monkeypatch.setattr(MemoryDisk, "rename", on_one_device)
    truncated = truncate_log(ROOT, SPREAD, cut, files=disk)
    assert truncated is not None
    assert truncated.cut_bytes == end - cut
    assert in_turns(disk, A, B) == {A: [0], B: [1]}
    with StoreDirectory(truncated.folder, in_root(SPREAD), disk) as cut_off:
        assert [number // FILE for number in cut_off.log.chain.starts] == [1, 2, 3]
        assert cut_off.log.read_record(2 * FILE) is not None
    assert numbers(open_store(SPREAD)) == list(range(12))


def test_a_store_is_salvaged_into_one_directory(disk: MemoryDisk, open_store: OpenStore) -> None:
    store = open_store(SPREAD)
    fill(store, 0, 30)
    store.close()
    assert salvage(ROOT, Path("/salvaged"), SPREAD, layer=disk)[:1] == (30,)
    with pytest.raises(SettingsError, match="lies within the old store"):
        salvage(ROOT, A / "salvaged", SPREAD, layer=disk)
    assert verify(Path("/salvaged"), in_root(SPREAD), layer=disk).messages == 30


# A Java broker's store


def spread_out(log: Path, *directories: Path) -> None:
    """Move the files of a log to some directories, by turns; remove its own."""
    for directory in directories:
        directory.mkdir()
    for number, path in enumerate(sorted(log.iterdir())):
        path.rename(directories[number % len(directories)] / path.name)
    log.rmdir()


@pytest.mark.parametrize("name", ["store-clean", "store-extended", "store-property-crc"])
@pytest.mark.parametrize(
    ("count", "read_only"), [(1, 0), (2, 0), (3, 1)], ids=["one other", "two", "two and a read-only one"]
)
def test_a_java_broker_s_store_is_the_same_wherever_its_log_is(
    golden: Mapping[str, Path], tmp_path: Path, name: str, count: int, read_only: int
) -> None:
    usual, root = tmp_path / "usual", tmp_path / "store"
    shutil.copytree(golden[name], usual)
    shutil.copytree(golden[name], root)
    sizes = infer_settings(Disk(), usual)
    directories = [tmp_path / f"log{number}" for number in range(count)]
    spread_out(root / "commitlog", *directories)
    settings = replace(
        sizes,
        store_path_commit_log=",".join(map(str, directories[read_only:])),
        read_only_commit_log_store_paths=",".join(map(str, directories[:read_only])),
    )
    derived = {path.relative_to(root): path.read_bytes() for path in derived_files(root)}
    expected = records(usual, sizes)
    assert records(root, settings) == expected
    assert {path.relative_to(root): path.read_bytes() for path in derived_files(root)} == derived
    assert not (root / "commitlog").exists()
    rebuild(root, settings)
    assert records(root, settings) == expected
    with StoreDirectory(root, settings) as store:
        assert next(find(store, FindQuery(topic=next(iter(expected))[0])), None) is not None


def derived_files(root: Path) -> list[Path]:
    return [path for part in ("consumequeue", "index") for path in (root / part).rglob("*") if path.is_file()]


def records(root: Path, settings: StoreSettings) -> dict[tuple[str, int], list[bytes]]:
    """All messages of all queues, read from an open store."""
    found = {}
    with MessageStore.open(root, settings) as store:
        assert store.recovered.clean
        for topic, queue_id in store.queues():
            queue = found[topic, queue_id] = list[bytes]()
            while len(queue) < store.max_queue_offset(topic, queue_id):
                queue += map(bytes, store.get(topic, queue_id, len(queue)).records)
    return found
