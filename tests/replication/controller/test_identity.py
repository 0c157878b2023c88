from pathlib import Path

import pytest

from cometmq.errors import SettingsError, StoreDamaged
from cometmq.replication.controller.identity import BrokerSet, IdApplication, IdentityFiles
from cometmq.testing.memory_disk import MemoryDisk

ROOT = Path("/store")
MEMBERS = BrokerSet("DefaultCluster", "broker-x")
APPLICATION = IdApplication(2, "127.0.0.1:10911;1795245182319")


@pytest.fixture
def disk() -> MemoryDisk:
    return MemoryDisk()


@pytest.fixture
def files(disk: MemoryDisk) -> IdentityFiles:
    return IdentityFiles(disk, ROOT, MEMBERS)


def test_a_new_broker_has_no_id(files: IdentityFiles) -> None:
    assert files.load_id() is None and files.load_application() is None


def test_an_id_is_saved_as_rocketmq_writes_it(files: IdentityFiles, disk: MemoryDisk) -> None:
    files.save_id(1)
    assert disk.load(ROOT / "brokerIdentity") == b"DefaultCluster#broker-x#1"
    assert files.load_id() == 1


def test_an_application_lasts_until_the_id_is_saved(files: IdentityFiles, disk: MemoryDisk) -> None:
    files.save_application(APPLICATION)
    assert disk.load(ROOT / "brokerIdentity-temp") == (
        b"DefaultCluster#broker-x#2#127.0.0.1:10911;1795245182319"
    )
    assert files.load_application() == APPLICATION
    files.save_id(2)
    assert files.load_application() is None and files.load_id() == 2


def test_an_application_that_was_refused_is_removed(files: IdentityFiles) -> None:
    files.save_application(APPLICATION)
    files.remove_application()
    assert files.load_application() is None


def test_an_empty_file_of_a_crash_counts_as_none(files: IdentityFiles, disk: MemoryDisk) -> None:
    files.save_application(APPLICATION)
    disk.save(ROOT / "brokerIdentity-temp", b"")
    assert files.load_application() is None


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"DefaultCluster#broker-x", "has 2 parts, expected 3; write DefaultCluster#broker-x#ID"),
        (b"DefaultCluster#broker-x#one", "broker id 'one': must be a number of 1 or more"),
        (b"DefaultCluster#broker-x#0", "broker id '0'"),
        (b"\xff", "not UTF-8 at byte 0"),
    ],
)
def test_a_broken_file_is_an_error_with_its_remedy(
    files: IdentityFiles, disk: MemoryDisk, data: bytes, what: str
) -> None:
    files.save_id(1)
    disk.save(ROOT / "brokerIdentity", data)
    with pytest.raises(StoreDamaged, match=what):
        files.load_id()


def test_the_directory_of_another_broker_is_refused(files: IdentityFiles, disk: MemoryDisk) -> None:
    files.save_id(1)
    other = IdentityFiles(disk, ROOT, BrokerSet("DefaultCluster", "broker-y"))
    with pytest.raises(
        SettingsError, match=r"is of DefaultCluster/broker-x, but .* say DefaultCluster/broker-y"
    ):
        other.load_id()


def test_a_name_with_the_separator_is_refused(disk: MemoryDisk) -> None:
    with pytest.raises(SettingsError, match="'broker#x' cannot be the name"):
        IdentityFiles(disk, ROOT, BrokerSet("DefaultCluster", "broker#x"))
