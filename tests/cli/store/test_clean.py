import os
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from cometmq.io.files import Disk


@pytest.fixture
def store(golden: Mapping[str, Path], tmp_path: Path) -> Path:
    """A copy of a real broker's store: two CommitLog files, the first one a day old."""
    path = Path(
        shutil.copytree(golden["store-clean"], tmp_path / "store", ignore=shutil.ignore_patterns("timer*"))
    )
    first = path / "commitlog" / "00000000000000000000"
    for file in path.rglob("*"):
        os.utime(file)
    written = first.stat().st_mtime - 86_400
    os.utime(first, (written, written))
    return path


def test_old_files_go_and_are_told_with_their_sizes(cometmq: Run, store: Path) -> None:
    first = store / "commitlog" / "00000000000000000000"
    planned = cometmq("store", "clean", str(store), "--older-than", "23h", "--dry-run")
    assert planned.code == 0 and first.exists()
    lines = planned.out.splitlines()
    assert lines[0] == f"would remove: {first}, 1.0 MiB"
    assert lines[-1].startswith(f"{store}: would remove 1 CommitLog, ")
    assert lines[-1].endswith("; the log begins at 1048576")
    ran = cometmq("store", "clean", str(store), "--older-than", "23h")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out == planned.out.replace("would remove", "removed")
    assert not first.exists()
    assert cometmq("store", "verify", str(store)).code == 0


def test_programs_get_json(cometmq: Run, store: Path) -> None:
    (nothing,) = cometmq("store", "clean", str(store), "--json").values
    assert nothing == {
        "path": str(store),
        "dry_run": False,
        "bytes": 0,
        "min_offset": 0,
        "commit_log": [],
        "queue_files": [],
        "index_files": [],
    }
    (value,) = cometmq("store", "clean", str(store), "--json", "--older-than", "1d").values
    path = str(store / "commitlog" / "00000000000000000000")
    assert value["commit_log"] == [{"path": path, "size": 1_048_576}]
    assert value["min_offset"] == 1_048_576 and value["bytes"] > 1_048_576


def test_the_settings_say_what_is_old(cometmq: Run, store: Path, tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(
        "mappedFileSizeConsumeQueue=6000\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n"
        "mappedFileSizeCommitLog=1048576\nfileReservedTime=24\n"
    )
    ran = cometmq("store", "clean", str(store), "--config", str(config), "--dry-run", "--json")
    assert len(ran.values[0]["commit_log"]) == 1


def test_what_cannot_be_cleaned_is_left_alone(cometmq: Run, store: Path, tmp_path: Path) -> None:
    assert cometmq("store", "clean", str(tmp_path / "nowhere")).failed(2, "no such directory")
    assert cometmq("store", "clean", str(store), "--older-than", "72").failed(
        2, "--older-than", "'72'", "72h"
    )
    disk = Disk()
    token = disk.lock(store / "lock")
    assert token is not None
    try:
        assert cometmq("store", "clean", str(store), "--older-than", "0s").failed(1, "stop it first")
    finally:
        disk.unlock(token)
