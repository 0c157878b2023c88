from pathlib import Path

import pytest
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.errors import SettingsError
from cometmq.format import layout
from cometmq.io.files import Disk
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.finding import Finding, Severity
from cometmq.testing.memory_disk import MemoryDisk

FOREVER = 2**63 - 1


@pytest.fixture
def killed(open_store: OpenStore, disk: MemoryDisk) -> MemoryDisk:
    """A killed store of one message."""
    store = open_store()
    store.append([new_message(keys="k")])
    return disk.after_kill()


def test_what_is_there_can_be_read_and_is_not_changed(killed: MemoryDisk) -> None:
    killed.put(layout.commitlog_dir(ROOT) / "00000000000000008192.tmp", bytes(10))
    killed.put(layout.commitlog_path(ROOT, 8_192), b"")
    before = {path: killed.load(path) for path in killed._files}
    with StoreDirectory(ROOT, SMALL, killed) as store:
        assert store.log.read_record(0) is not None
        assert not store.was_closed
        assert store.data_bytes() > 0
        assert [finding.severity for finding in store.findings].count(Severity.RECOVERY) >= 1
        store.drop_pages()
    assert {path: killed.load(path) for path in killed._files} == before


def test_a_closed_store_is_vouched_for_and_a_killed_one_as_far_as_its_checkpoint_says(
    killed: MemoryDisk,
) -> None:
    assert StoreDirectory(ROOT, SMALL, killed).vouched_time == FOREVER  # the machine has run on
    killed.put(layout.abort_path(ROOT), b"1")  # as of another run of the machine
    killed.put(layout.checkpoint_path(ROOT), (77).to_bytes(8, "big") + bytes(4_088))
    assert StoreDirectory(ROOT, SMALL, killed).vouched_time == 77
    killed.put(layout.checkpoint_path(ROOT), bytes(10))
    assert StoreDirectory(ROOT, SMALL, killed).checkpoint is None
    killed.remove(layout.abort_path(ROOT))
    assert StoreDirectory(ROOT, SMALL, killed).vouched_time == FOREVER


def test_topics_come_from_the_table_or_its_backup(killed: MemoryDisk) -> None:
    path = layout.config_path(ROOT, "topics")
    killed.make_directory(path.parent)
    store = StoreDirectory(ROOT, SMALL, killed)
    assert store.topics() is None
    killed.put(layout.backup_path(path), b'{"topicConfigTable":{"A":{}}}')
    assert store.topics() == {"A"}
    killed.put(path, b"{")
    assert store.topics() == {"A"}
    killed.put(path, b'{"topicConfigTable":{"B":{}}}')
    assert store.topics() == {"B"}


def test_index_files_that_cannot_be_used_are_told(killed: MemoryDisk) -> None:
    directory = layout.index_dir(ROOT)
    killed.make_directory(directory)
    for name, size in (("20261121071235826", 1_080), ("20261121071235827", 5), ("x", 1), ("y.tmp", 1)):
        killed.put(directory / name, bytes(size))
    findings: list[Finding] = []
    views = StoreDirectory(ROOT, SMALL, killed).index(findings)
    assert "20261121071235826" in [view.path.name for view in views]
    told = {finding.path.name: finding.severity for finding in findings}
    assert told == {
        "20261121071235827": Severity.DAMAGE,
        "x": Severity.DAMAGE,
        "y.tmp": Severity.RECOVERY,
    }


@pytest.mark.parametrize("name", ["nowhere", "file", "."])
def test_what_is_no_store_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"give the (path|directory) of a store"):
        StoreDirectory(tmp_path / name, layer=Disk())
