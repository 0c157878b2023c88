"""Directories of others are passed over; what has the name of a store's file and is none is named."""

import logging
import os
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from cometmq.errors import StoreDamaged
from cometmq.format import layout
from cometmq.io.files import Disk
from cometmq.io.regular import NotRegularFile
from cometmq.message import Message
from cometmq.store import MessageStore
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.folders import LOST_AND_FOUND, files_in, queues_in, topics_in
from cometmq.store.inspect import summarize
from cometmq.store.inspect.file import open_file
from cometmq.store.inspect.status import StoreState, status_of
from cometmq.store.offline.clean import clean
from cometmq.store.offline.salvage import salvage
from cometmq.store.recovery.rebuild import rebuild
from cometmq.store.settings import StoreSettings
from cometmq.store.tables import JsonTable
from cometmq.store.verify import State, verify

SETTINGS = StoreSettings(
    mapped_file_size_commit_log=64 * 1024, mapped_file_size_consume_queue=20 * 50, timer_wheel_enable=True
)


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    """A closed store with a message, and a directory of the file system's own in each of its folders."""
    root = tmp_path / "store"
    with MessageStore.open(root, SETTINGS) as store:
        store.append_message(Message("Orders", b"x", keys=("k",)))
    folders = [path for path in sorted(root.rglob("*")) if path.is_dir()]
    assert {"commitlog", "consumequeue", "index", "config", "Orders", "0"} <= {path.name for path in folders}
    for folder in [root, *folders]:
        (folder / LOST_AND_FOUND).mkdir(mode=0)
        (folder / "snapshots").mkdir()
    yield root
    for folder in list(root.rglob(LOST_AND_FOUND)):
        folder.chmod(0o700)


def test_a_store_with_directories_of_others_opens_and_takes_messages(root: Path) -> None:
    with MessageStore.open(root, SETTINGS) as store:
        store.append_message(Message("Orders", b"y"))
        assert [message.body for message in store.messages("Orders", 0)] == [b"x", b"y"]
        assert [message.body for message in store.messages_by_key("Orders", "k")] == [b"x"]


def test_a_killed_store_with_directories_of_others_recovers(root: Path) -> None:
    layout.abort_path(root).write_text("1\n")
    with MessageStore.open(root, SETTINGS) as store:
        assert [message.body for message in store.messages("Orders", 0)] == [b"x"]


def test_tools_pass_over_directories_of_others(root: Path, tmp_path: Path) -> None:
    assert verify(root).findings == []
    with StoreDirectory(root) as store:
        assert summarize(store).topics == [("Orders", 1, 1)]
        assert status_of(store).state is StoreState.CLOSED
    assert clean(root, dry_run=True).files == []
    assert rebuild(root).messages == 1
    target = tmp_path / "target"
    (target / LOST_AND_FOUND).mkdir(parents=True)
    assert salvage(root, target).messages == 1
    with MessageStore.open(target, SETTINGS) as store:
        assert [message.body for message in store.messages("Orders", 0)] == [b"x"]


def test_a_directory_of_others_is_never_opened(root: Path) -> None:
    class Watched(Disk):
        def names(self, directory: Path) -> list[str]:
            assert directory.name != LOST_AND_FOUND
            return super().names(directory)

    assert verify(root, layer=Watched()).findings == []
    with MessageStore.open(root, SETTINGS, files=Watched()) as store:
        store.delete_topic("Orders")
    (left,) = layout.deleted_dir(layout.consume_queues_dir(root)).iterdir()
    assert {path.name for path in left.rglob("*")} == {"0", LOST_AND_FOUND, "snapshots"}


def test_files_are_listed_without_looking_at_those_of_usual_names(tmp_path: Path) -> None:
    looked_at: list[str] = []

    class Watched(Disk):
        def is_directory(self, path: Path) -> bool:
            looked_at.append(path.name)
            return super().is_directory(path)

    for name in ("a1", "a2", "b"):
        (tmp_path / name).touch()
    (tmp_path / "c").mkdir()
    assert files_in(Watched(), tmp_path, lambda name: name.startswith("a")) == ["a1", "a2", "b"]
    assert looked_at == ["b", "c"]


def test_what_is_passed_over_is_logged_but_for_lost_and_found_and_what_is_being_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("%RETRY%g", "Orders", LOST_AND_FOUND, layout.DELETED, "no topic"):
        (tmp_path / name).mkdir()
    (tmp_path / "no.file").touch()
    with caplog.at_level(logging.INFO):
        assert list(topics_in(Disk(), tmp_path)) == ["%RETRY%g", "Orders", "no.file"]
    assert [record.args for record in caplog.records] == [(tmp_path / "no topic",)]
    (tmp_path / "17").mkdir()
    assert list(queues_in(Disk(), tmp_path)) == ["17", "no.file"]


NO_FILES: dict[str, Callable[[Path], object]] = {
    "a directory": Path.mkdir,
    "a FIFO": os.mkfifo,
    "a link to a character device": lambda path: path.symlink_to("/dev/zero"),
}
LOG = "commitlog/00000000000000065536"


def put(path: Path, kind: str) -> Path:
    """Place something that is no file where one may be."""
    path.unlink(missing_ok=True)
    NO_FILES[kind](path)
    return path


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize(
    "place",
    [
        LOG,
        "consumequeue/Orders/0/00000000000000001000",
        "index/20260101000000000",
        "config/topics.json",
        "config/topics.json.bak",
        "checkpoint",
    ],
)
def test_verify_names_what_has_the_name_of_a_file_and_is_none(root: Path, place: str, kind: str) -> None:
    path = put(root / place, kind)
    verified = verify(root)
    assert verified.state is State.DAMAGED
    assert [(one.path, one.what) for one in verified.findings if one.path == path] == [
        (path, f"is {kind}, not a regular file")
    ]


@pytest.mark.parametrize("kind", NO_FILES)
def test_all_tools_name_what_has_the_name_of_a_log_file_and_is_none(
    root: Path, tmp_path: Path, kind: str
) -> None:
    path = put(root / LOG, kind)
    says = f"{path}: is {kind}, not a regular file"
    with StoreDirectory(root) as store:
        assert [str(one) for one in status_of(store).findings if says in str(one)]
        assert [str(one) for one in summarize(store).findings if says in str(one)]
    for use in (partial(clean, dry_run=True), rebuild, partial(MessageStore.open, settings=SETTINGS)):
        with pytest.raises(StoreDamaged, match=re.escape(says)):
            use(root)
    with pytest.raises(NotRegularFile):
        open_file(Disk(), path)
    target = tmp_path / "target"
    assert [lost.reason for lost in salvage(root, target).lost if lost.path == path] == [
        f"is {kind}, not a regular file"
    ]


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("place", ["lock", "checkpoint", LOG])
def test_a_store_is_not_opened_with_what_has_the_name_of_a_file_and_is_none(
    root: Path, place: str, kind: str
) -> None:
    path = put(root / place, kind)
    with pytest.raises((StoreDamaged, NotRegularFile), match=f"is {kind}, not a regular file") as caught:
        MessageStore.open(root, SETTINGS)
    assert str(path) in str(caught.value)


def test_an_index_file_that_is_none_is_set_aside_and_the_index_built_anew(root: Path) -> None:
    path = put(root / "index/20260101000000000", "a FIFO")
    with MessageStore.open(root, SETTINGS) as store:
        assert [message.body for message in store.messages_by_key("Orders", "k")] == [b"x"]
    assert not path.exists()


def test_where_a_queue_should_be_a_file_is_named(root: Path) -> None:
    path = put(root / "consumequeue" / "Orders" / "7", "a FIFO")
    assert [(one.path, one.what) for one in verify(root).findings] == [(path, "no queue's directory")]


def test_a_log_that_is_linked_is_sound(root: Path, tmp_path: Path) -> None:
    (root / "commitlog").rename(tmp_path / "elsewhere")
    (root / "commitlog").mkdir()
    for file in (tmp_path / "elsewhere").glob("0*"):
        (root / "commitlog" / file.name).symlink_to(file)
    assert verify(root).state is State.SOUND


def test_a_table_that_is_no_file_is_read_from_its_backup(root: Path) -> None:
    table = JsonTable(Disk(), put(root / "config" / "topics.json", "a FIFO"))
    (root / "config" / "topics.json.bak").write_text('{"a":1}')
    assert table.load() == {"a": 1}
    with pytest.raises(StoreDamaged, match=r"is broken \(is a FIFO"):
        table.load_latest()


def test_a_directory_writes_no_lines_of_its_own_into_the_log(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "consumequeue" / "x\n2031-01-01 00:00:00,000 ERROR cometmq: lost\x1b[2J").mkdir()
    with caplog.at_level(logging.INFO), MessageStore.open(root, SETTINGS):
        pass
    assert r"consumequeue/x\n2031-01-01 00:00:00,000 ERROR cometmq: lost\x1b[2J: is skipped" in caplog.text
