"""What a real RocketMQ keeps in forms that CometMQ does not read is neither changed nor called damage."""

import logging
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.store.conftest import new_message

from cometmq.errors import SettingsError
from cometmq.io.files import Disk
from cometmq.store import MessageStore
from cometmq.store.directory import StoreDirectory
from cometmq.store.files.sizes import infer_settings
from cometmq.store.inspect import summarize
from cometmq.store.inspect.status import status_of
from cometmq.store.offline.clean import clean
from cometmq.store.offline.find import FindQuery, find
from cometmq.store.offline.salvage import salvage
from cometmq.store.recovery.rebuild import rebuild
from cometmq.store.verify import State, verify

COUNT = 5
"""The messages that were sent to the topic Orders."""
TABLES = {
    "config/topics": "topics in RocksDB",
    "config/subscriptionGroups": "groups in RocksDB",
    "config/consumerOffsets": "offsets .*rocksDBConfigToJson",
}
REFUSED: Mapping[str, Mapping[str, str]] = {
    "rocksdb-queues": {"consumequeue": "queues in RocksDB.*store rebuild", **TABLES},
    "rocksdb-queues-apart": {"consumequeue_rocksdb": "queues in RocksDB.*store rebuild", **TABLES},
    "rocksdb-tables": {"config/rdb": "offsets in RocksDB.*exportMetadata"},
    "rocksdb-one-table": {
        "consumequeue": "queues in RocksDB",
        "config/metadata": "topics.*rocksDBConfigToJson",
    },
    "pops": {"kvStore": "in flight by pops.*exportPopRecord"},
    "rocksdb-timer": {"rocksdbstore": "timed messages.*run until none"},
    "rocksdb-transactions": {"rocksdbstore": "transactions.*run until none"},
    "rocksdb-index": {"rocksdbstore": "index in RocksDB.*store rebuild"},
    "compaction": {"compaction/compactionLog": "compacted topics.*if the CommitLog has all"},
    "batch-queues": {"batchconsumequeue": "batch queues.*have a Java broker deliver"},
    "dledger": {"dledger-n0": "Raft group.*another directory"},
    "tiered": {"config/tieredStoreMetadata.json": "tiered storage.*if the CommitLog has all"},
}
"""By name of a store: its foreign contents, and what is said of them."""
SERVED: Mapping[str, tuple[str, ...]] = {"default": (), "rocksdb-users": ("config/users",)}
"""By name of a store: what of it is left alone, and named."""
READABLE = sorted({*REFUSED, *SERVED} - {"dledger"})


@pytest.fixture
def store_of(request: pytest.FixtureRequest, foreign: Mapping[str, Path], tmp_path: Path) -> Path:
    """Copy the golden store that the test is parametrized with."""
    name = str(request.param)
    return Path(shutil.copytree(foreign[name], tmp_path / name))


def content_of(root: Path) -> dict[str, bytes | None]:
    """Return all that is in a directory, by path; None for directories."""
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in root.rglob("*")
    }


def foreign_part(root: Path) -> dict[str, bytes | None]:
    """Return what is in folders that CometMQ has no use for."""
    folders = ("rocksdbstore", "compaction", "config/users", "config/acls")
    return {path: data for path, data in content_of(root).items() if path.startswith(folders)}


def opened(root: Path) -> MessageStore:
    return MessageStore.open(root, infer_settings(Disk(), root))


def test_each_golden_store_is_judged(foreign: Mapping[str, Path]) -> None:
    assert foreign.keys() == {*REFUSED, *SERVED}


@pytest.mark.parametrize("store_of", REFUSED, indirect=True)
def test_a_store_is_refused_whose_contents_would_be_missed_and_nothing_of_it_changes(store_of: Path) -> None:
    before, settings = content_of(store_of), infer_settings(Disk(), store_of)
    with pytest.raises(SettingsError) as refusal:
        MessageStore.open(store_of, settings)
    places = REFUSED[store_of.name].items()
    for line, (place, words) in zip(str(refusal.value).splitlines(), places, strict=True):
        assert line.startswith(f"{store_of / place}: holds ")
        assert re.search(words, line), line
    with pytest.raises(SettingsError):
        rebuild(store_of, settings)
    with pytest.raises(SettingsError):
        clean(store_of, settings, older_than_ms=0)
    assert content_of(store_of) == before


@pytest.mark.parametrize("store_of", SERVED, indirect=True)
def test_what_makes_no_difference_is_left_alone_and_named(
    store_of: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    before = foreign_part(store_of)
    with opened(store_of) as store:
        assert store.max_queue_offset("Orders", 0) == COUNT
        store.append([new_message("Orders")])
    assert foreign_part(store_of) == before != {}
    for place in SERVED[store_of.name]:
        assert f"{store_of / place}: holds users" in caplog.text
    assert caplog.text.count("it is left alone") == len(SERVED[store_of.name])


@pytest.mark.parametrize("store_of", [name for name in REFUSED if name != "dledger"], indirect=True)
def test_whoever_moves_it_out_of_the_store_and_rebuilds_has_the_messages(
    store_of: Path, tmp_path: Path
) -> None:
    for place in REFUSED[store_of.name]:
        (store_of / place).rename(tmp_path / place.replace("/", "-"))
    rebuild(store_of)
    with opened(store_of) as store:
        assert store.max_queue_offset("Orders", 0) == COUNT


@pytest.mark.parametrize("store_of", READABLE, indirect=True)
def test_what_only_reads_says_what_it_leaves_out_and_calls_nothing_of_it_damage(
    store_of: Path, tmp_path: Path
) -> None:
    before = content_of(store_of)
    places = [str(store_of / place) for place in {**REFUSED, **SERVED}[store_of.name]]
    verified = verify(store_of)
    assert verified.state is State.SOUND and verified.messages >= COUNT
    assert [str(finding.path) for finding in verified.findings] == places
    with StoreDirectory(store_of) as store:
        assert status_of(store).findings == summarize(store).findings == verified.findings
        assert [found.record.topic for found in find(store, FindQuery(key="key-1"))][:1] == ["Orders"]
    salvaged = salvage(store_of, tmp_path / "salvaged")
    assert [text.partition(": ")[0] for text in salvaged.left_out] == places
    assert salvaged.messages == verified.messages
    assert content_of(store_of) == before


@pytest.mark.parametrize("store_of", ["dledger"], indirect=True)
def test_a_store_whose_log_is_a_raft_group_s_cannot_be_read(store_of: Path, tmp_path: Path) -> None:
    before = content_of(store_of)
    for read in (verify, StoreDirectory, lambda root: salvage(root, tmp_path / "salvaged")):
        with pytest.raises(SettingsError, match="dledger-n0: holds the log of a Raft group"):
            read(store_of)
    assert content_of(store_of) == before and not (tmp_path / "salvaged").exists()
