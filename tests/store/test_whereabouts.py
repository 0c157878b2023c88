"""A store whose log is somewhere else is refused, and nothing of it is changed."""

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.store.conftest import ROOT, OpenStore, new_message

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.store import MessageStore
from cometmq.store.recovery.rebuild import rebuild
from cometmq.testing.memory_disk import MemoryDisk


def contents(disk: MemoryDisk) -> dict[Path, bytes]:
    return {path: bytes(content.data) for path, content in disk._files.items()}


def without(disk: MemoryDisk, *parts: Path) -> MemoryDisk:
    """The disk without some files and directories of the store."""
    kept = disk.after_kill()
    for path in list(kept._files):
        if any(part == path or part in path.parents for part in parts):
            kept.remove(path)
    return kept


@pytest.fixture
def filled(open_store: OpenStore, disk: MemoryDisk) -> MemoryDisk:
    store = open_store()
    for number in range(100):
        store.append([new_message(keys=f"k{number}")])
    store.close()
    return disk


QUEUES, INDEX = layout.consume_queues_dir(ROOT), layout.index_dir(ROOT)
CHECKPOINT, LOG = layout.checkpoint_path(ROOT), layout.commitlog_dir(ROOT)


@pytest.mark.parametrize(
    ("gone", "sign"),
    [
        ((), "the ConsumeQueue consumequeue/Orders/0"),
        ((QUEUES,), "the index file"),
        ((QUEUES, INDEX), "a checkpoint of messages"),
    ],
)
def test_a_store_that_has_held_messages_is_refused_without_its_log(
    filled: MemoryDisk, open_store: OpenStore, gone: tuple[Path, ...], sign: str
) -> None:
    disk = without(filled, LOG, *gone)
    before = contents(disk)
    with pytest.raises(SettingsError, match=f"{sign}.*where is its log.*storePathCommitLog.*begin anew"):
        open_store(files=disk)
    with pytest.raises(SettingsError, match="where is its log"):
        rebuild(ROOT, layer=disk)
    assert contents(disk) == before


def test_a_store_that_has_held_no_message_opens_without_a_log(open_store: OpenStore) -> None:
    open_store().close()
    assert open_store().written_offset == 0


def test_whoever_moves_the_derived_files_away_begins_anew(filled: MemoryDisk, open_store: OpenStore) -> None:
    store = open_store(files=without(filled, LOG, QUEUES, INDEX, CHECKPOINT))
    assert store.append([new_message()])[0].physical_offset == 0


@pytest.mark.parametrize(
    "name", ["store-clean", "store-killed", "store-killed-recovered", "store-extended", "store-light"]
)
def test_a_java_broker_s_store_is_unchanged_if_its_log_is_elsewhere(
    golden: Mapping[str, Path], tmp_path: Path, name: str
) -> None:
    root = shutil.copytree(golden[name], tmp_path / "store")
    (root / "commitlog").rename(tmp_path / "commitlog")
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    with pytest.raises(SettingsError, match="where is its log"):
        MessageStore.open(root)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before
