"""Light queues of stores that a real RocketMQ wrote: found in the log, never called damage, never moved."""

import logging
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from cometmq.format import layout
from cometmq.format.host import pack_host
from cometmq.format.queue_entry import SIZE, pack
from cometmq.format.record import Record, decode, encode
from cometmq.io.files import Disk
from cometmq.store import MessageStore, StoreSettings
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.finding import Severity
from cometmq.store.files.sizes import infer_settings
from cometmq.store.offline.clean import clean
from cometmq.store.offline.find import FindQuery, find
from cometmq.store.offline.salvage import salvage
from cometmq.store.recovery.rebuild import rebuild
from cometmq.store.verify import verify
from cometmq.store.verify.whole import State

CLOSED, KILLED = "store-light", "store-light-killed"
ONE = "%LMQ%$LightParent$one"
HOST = pack_host("127.0.0.1", 10911)
BOTH = pytest.mark.parametrize("name", [CLOSED, KILLED])

Copy = Callable[[str], Path]


@pytest.fixture
def copy(golden: Mapping[str, Path], tmp_path: Path) -> Copy:
    """Copies a golden store, to be changed."""
    return lambda name: Path(shutil.copytree(golden[name], tmp_path / name))


def queue_files(root: Path) -> dict[str, bytes]:
    """The files of all queues."""
    queues = layout.consume_queues_dir(root)
    return {str(path.relative_to(queues)): path.read_bytes() for path in queues.rglob("*") if path.is_file()}


def light(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Those of light queues."""
    return {path: data for path, data in files.items() if path.startswith("%LMQ%")}


def settings_of(root: Path) -> StoreSettings:
    return infer_settings(Disk(), root)


def open_and_close(root: Path) -> None:
    MessageStore.open(root, settings_of(root)).close()


def files_of(root: Path, name: str) -> list[Path]:
    """The files of a light queue, oldest first."""
    return sorted(layout.consume_queue_dir(root, name, 0).iterdir())


@BOTH
def test_verify_finds_them_sound(golden: Mapping[str, Path], name: str) -> None:
    verified = verify(golden[name])
    assert verified.state is (State.SOUND if name == CLOSED else State.NEEDS_RECOVERY)
    assert not [found for found in verified.findings if found.severity is Severity.DAMAGE]
    assert verified.queues == len(list(layout.consume_queues_dir(golden[name]).glob("*/*"))) == 8


@BOTH
@pytest.mark.parametrize("is_there", [True, False])
def test_the_log_alone_gives_the_bytes_that_rocketmq_wrote(
    golden: Mapping[str, Path], copy: Copy, name: str, is_there: bool
) -> None:
    root = copy(name)
    settings = settings_of(root)
    if not is_there:
        shutil.rmtree(layout.consume_queues_dir(root))
    rebuilt = rebuild(root, settings)
    assert (rebuilt.queues, rebuilt.damages, rebuilt.gaps) == (8, [], [])
    assert light(queue_files(root)) == light(queue_files(golden[name]))


@BOTH
def test_a_start_leaves_them_as_they_are(
    golden: Mapping[str, Path], copy: Copy, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    root = copy(name)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            open_and_close(root)
    assert queue_files(root) == queue_files(golden[name])
    assert not (root / "setaside").exists()
    assert "is skipped" not in caplog.text and "%LMQ%" not in caplog.text
    assert verify(root).state is State.SOUND


@pytest.mark.parametrize("queue", [ONE, "%LMQ%session-s0", "%LMQ%a.b"])
@pytest.mark.parametrize("what", ["entry", "last entries", "last file"])
def test_a_start_writes_again_what_is_damaged_or_lost(
    golden: Mapping[str, Path], copy: Copy, queue: str, what: str
) -> None:
    root = copy(CLOSED)
    last = files_of(root, queue)[-1]
    data = last.read_bytes()
    if what == "entry":
        last.write_bytes(data[:7] + b"\xff" + data[8:])
    elif what == "last entries":
        last.write_bytes(data[: 5 * SIZE] + bytes(len(data) - 5 * SIZE))
    else:
        last.write_bytes(bytes(len(data)))
    assert verify(root).state is State.DAMAGED
    open_and_close(root)
    assert light(queue_files(root)) == light(queue_files(golden[CLOSED]))
    assert verify(root).state is State.SOUND


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_start_writes_a_removed_queue_again_that_an_earlier_one_knew(
    golden: Mapping[str, Path], copy: Copy, is_whole: bool
) -> None:
    root = copy(CLOSED)
    open_and_close(root)
    for path in files_of(root, ONE)[0 if is_whole else -1 :]:
        path.unlink()
    open_and_close(root)
    assert light(queue_files(root)) == light(queue_files(golden[CLOSED]))


def test_a_queue_without_files_counts_as_deleted(copy: Copy) -> None:
    root = copy(CLOSED)
    shutil.rmtree(layout.topic_dir(root, ONE))
    assert verify(root).state is State.SOUND
    open_and_close(root)
    assert not layout.topic_dir(root, ONE).exists()


@pytest.mark.parametrize("kept", [0, 1, 20, 31, 43])
def test_entries_that_a_kill_took_are_dispatched_again(
    golden: Mapping[str, Path], copy: Copy, kept: int
) -> None:
    root = copy(KILLED)
    files = files_of(root, ONE)
    data = b"".join(path.read_bytes() for path in files)
    data = data[: kept * SIZE] + bytes(len(data) - kept * SIZE)
    size = len(data) // len(files)
    for number, path in enumerate(files):
        path.write_bytes(data[number * size :][:size])
    open_and_close(root)
    assert light(queue_files(root)) == light(queue_files(golden[KILLED]))


def test_a_salvaged_store_has_them(golden: Mapping[str, Path], tmp_path: Path) -> None:
    salvaged = salvage(golden[CLOSED], tmp_path / "salvaged")
    assert (salvaged.lost, salvaged.gaps) == ([], [])
    assert light(queue_files(tmp_path / "salvaged")) == light(queue_files(golden[CLOSED]))
    assert verify(tmp_path / "salvaged").state is State.SOUND


def test_their_files_expire_with_the_log(copy: Copy) -> None:
    root = copy(CLOSED)
    cleaned = clean(root, older_than_ms=0)
    assert len(cleaned.commit_log) == 1
    assert {path.parent.parent.name for path, _ in cleaned.queue_files} > {ONE, "%LMQ%session-s0"}
    assert verify(root).state is State.SOUND
    open_and_close(root)
    assert verify(root).state is State.SOUND


def test_their_messages_are_found_once_and_in_the_topic_of_each(golden: Mapping[str, Path]) -> None:
    with StoreDirectory(golden[CLOSED]) as store:
        found = list(find(store, FindQuery(key="LIGHTca")))
    assert [(each.record.topic, each.record.body) for each in found] == [("LightParent", b"c all")]


@pytest.mark.parametrize("count", [1, 32])
def test_their_messages_are_read(copy: Copy, count: int, caplog: pytest.LogCaptureFixture) -> None:
    root, bodies = copy(CLOSED), []
    with MessageStore.open(root, settings_of(root)) as store:
        offset = 0
        while (got := store.get(ONE, 0, offset, count)).records:
            bodies += [decode(data).body for data in got.records]
            offset = got.next_offset
    assert len(bodies) == offset == 108
    assert bodies[:3] + bodies[-2:] == [b"k single", b"k both", b"k all", b"c all", b"c untagged"]
    assert "cannot be read" not in caplog.text


def named(rooms: str, offsets: str, number: int, begin: int) -> bytes:
    """A record as a Java broker writes it."""
    properties = f"INNER_MULTI_DISPATCH\1{rooms}\2INNER_MULTI_QUEUE_OFFSET\1{offsets}\2"
    return encode(Record("Parent", b"x", properties.encode(), 0, number, begin, 0, 0, 1, HOST, 1_000, HOST))


def test_a_queue_that_is_named_twice_is_made_anew_once_by_what_its_records_say(tmp_path: Path) -> None:
    data, dense = b"", b""
    for number, (rooms, offsets) in enumerate([("%LMQ%a,%LMQ%a", "0,0"), ("%LMQ%a", "2"), ("%LMQ%a", "3")]):
        dense += pack(len(data), len(one := named(rooms, offsets, number, len(data))), 0)
        data += one
    settings = StoreSettings(mapped_file_size_commit_log=8_192, mapped_file_size_consume_queue=400)
    with MessageStore.open(tmp_path, settings) as store:
        store.received.append(0, data)
        assert store.max_queue_offset("%LMQ%a", 0) == 4
    made = queue_files(tmp_path)
    [path] = files_of(tmp_path, "%LMQ%a")
    path.write_bytes(dense + bytes(400 - len(dense)))  # as RocketMQ has it
    for _ in range(2):
        MessageStore.open(tmp_path, settings).close()
        assert queue_files(tmp_path) == made
        assert verify(tmp_path, settings).state is State.SOUND
    assert [path.name for path in (tmp_path / "setaside").iterdir()] == ["consumequeue-%LMQ%a-0.0"]
