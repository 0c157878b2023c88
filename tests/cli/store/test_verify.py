import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.cli.conftest import Process, Run

from cometmq.store import MessageStore, StoreSettings

LOG = "commitlog/00000000000000000000"


def damage(path: Path, position: int) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(b"\xff\xfe")


def test_a_sound_store_ends_with_0(cometmq: Run, store: Path) -> None:
    ran = cometmq("store", "verify", str(store))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{store}: sound; 2685 messages, 1.2 MiB of log, 24 queues, 8275 index entries")


def test_a_killed_store_ends_with_0_and_says_that_it_needs_recovery(
    cometmq: Run, golden: Mapping[str, Path]
) -> None:
    ran = cometmq("store", "verify", str(golden["store-killed"]))
    assert ran.code == 0
    assert "needs recovery: " in ran.out and ": needs recovery; 2604 messages" in ran.out


def test_a_damaged_store_ends_with_1_and_says_where(cometmq: Run, store: Path) -> None:
    damage(store / LOG, 3_429 + 100)
    ran = cometmq("store", "verify", str(store))
    assert ran.code == 1
    assert f"damage: {store / LOG}, byte 3429, 482 bytes: BODYCRC" in ran.out
    assert ran.out.splitlines()[-1].startswith(f"{store}: damaged;")
    (value,) = cometmq("store", "verify", str(store), "--json").values
    (finding,) = [finding for finding in value["findings"] if finding["severity"] == "damage"]
    assert (value["state"], value["messages"], value["path"]) == ("damaged", 2_684, str(store))
    assert (finding["path"], finding["position"], finding["size"]) == (str(store / LOG), 3_429, 482)


def test_of_what_is_no_damage_people_see_some(cometmq: Run, store: Path) -> None:
    (store / "abort").touch()
    shutil.rmtree(store / "consumequeue")
    (store / "checkpoint").unlink()
    ran = cometmq("store", "verify", str(store))
    assert ran.out.count("needs recovery: ") == 10
    assert " more that are not damage: --json shows all" in ran.out
    (value,) = cometmq("store", "verify", str(store), "--json").values
    assert len(value["findings"]) > 20


def test_a_settings_file_gives_the_sizes(cometmq: Run, store: Path, tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text("mappedFileSizeCommitLog=2097152\nmappedFileSizeConsumeQueue=6000\n")
    ran = cometmq("store", "verify", str(store), "--config", str(config))
    assert ran.code == 1
    assert "has 1048576 bytes, expected 2097152; set mappedFileSizeCommitLog" in ran.out


@pytest.mark.parametrize(
    ("name", "words"),
    [("nowhere", "no such directory"), ("store/lock", "is a file"), ("store/config", "holds no commitlog/")],
)
def test_what_is_no_store_ends_with_2(cometmq: Run, store: Path, name: str, words: str) -> None:
    assert cometmq("store", "verify", str(store.parent / name)).failed(2, name, words, "give the")


def test_an_index_whose_sizes_cannot_be_told_asks_for_the_settings(cometmq: Run, store: Path) -> None:
    for path in (store / "index").iterdir():
        os.truncate(path, 84_000)
    assert cometmq("store", "verify", str(store)).failed(2, "84000 bytes", "maxHashSlotNum", "--config")


def test_a_store_that_is_open_can_be_checked_and_is_not_disturbed(cometmq: Run, tmp_path: Path) -> None:
    settings = StoreSettings(mapped_file_size_commit_log=65_536)
    with MessageStore.open(tmp_path / "store", settings):
        ran = cometmq("store", "verify", str(tmp_path / "store"))
        assert ran.code == 0 and "open now" in ran.out
        with Process("store", "verify", str(tmp_path / "store")) as process:
            assert process.end().code == 0
        assert cometmq("store", "rebuild", str(tmp_path / "store")).failed(
            1, "another process", "stop it first"
        )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_store_that_may_not_be_read_ends_with_1(cometmq: Run, store: Path) -> None:
    (store / "commitlog").chmod(0)
    ran = cometmq("store", "verify", str(store))
    (store / "commitlog").chmod(0o755)
    assert ran.failed(1, "commitlog", "Permission denied")


def test_what_the_system_refuses_ends_with_1(cometmq: Run, tmp_path: Path) -> None:
    for command in ("verify", "rebuild", "inspect"):
        assert cometmq("store", command, str(tmp_path / ("x" * 300))).failed(1, "xxx: File name too long")
