"""Tables in JSON: a crash leaves the old or the new content, and a broken file never costs both."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.conftest import Interrupted

from cometmq.errors import StoreDamaged
from cometmq.format.layout import backup_path
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.testing.memory_disk import MemoryDisk

PATH = Path("/store/config/topics.json")
BACKUP = backup_path(PATH)

Steps = list[tuple[str, int]]


def test_a_table_that_was_never_saved_is_none() -> None:
    assert JsonTable(MemoryDisk(), PATH).load() is None


def test_it_is_written_as_rocketmq_writes_it_and_read_back() -> None:
    disk = MemoryDisk()
    JsonTable(disk, PATH).save({"offsetTable": {"T@G": {0: 17, 1: 18}}})
    assert disk.load(PATH) == b'{\n\t"offsetTable":{\n\t\t"T@G":{\n\t\t\t0:17,\n\t\t\t1:18\n\t\t}\n\t}\n}'
    assert JsonTable(disk, PATH).load() == {"offsetTable": {"T@G": {0: 17, 1: 18}}}


@pytest.mark.parametrize("broken", [b"", b"{", b"[]", b"\xff\xfe", None])
def test_the_backup_serves_where_the_table_is_broken_or_missing(broken: bytes | None) -> None:
    disk = MemoryDisk()
    table = JsonTable(disk, PATH)
    table.save({"version": 1})
    table.save({"version": 2})
    if broken is None:
        disk.remove(PATH)
    else:
        disk.put(PATH, broken)
    again = JsonTable(disk, PATH)
    assert again.load() == {"version": 1}
    again.save({"version": 3})
    assert JsonTable(disk, PATH).load() == {"version": 3}
    assert disk.load(BACKUP) == b'{\n\t"version":1\n}', "the broken file must not replace a good backup"


def test_what_has_not_changed_is_not_written() -> None:
    disk = MemoryDisk()
    table = JsonTable(disk, PATH)
    table.save({"version": 1})
    disk.space_bytes = 0
    table.save({"version": 1})
    with pytest.raises(OSError, match="No space left"):
        table.save({"version": 2})
    assert JsonTable(disk, PATH).load() == {"version": 1}


@pytest.mark.parametrize(("broken", "why"), [(b"{", "broken"), (b"[]", "broken"), (None, "missing")])
def test_who_needs_the_last_content_gets_no_backup(broken: bytes | None, why: str) -> None:
    disk = MemoryDisk()
    table = JsonTable(disk, PATH)
    table.save({"version": 1})
    table.save({"version": 2})
    assert JsonTable(disk, PATH).load_latest() == {"version": 2}
    if broken is None:
        disk.remove(PATH)
    else:
        disk.put(PATH, broken)
    with pytest.raises(StoreDamaged, match=rf"topics.json is {why}.*put topics.json.bak in its place"):
        JsonTable(disk, PATH).load_latest()


def test_the_last_content_of_a_table_that_was_never_saved_is_none() -> None:
    assert JsonTable(MemoryDisk(), PATH).load_latest() is None


def test_a_private_table_is_for_its_owner_only_and_so_is_its_backup(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    paths = path, backup_path(path)
    table = JsonTable(Disk(), path, private=True)
    for version in range(2):
        table.save({"version": version})
    assert [mode_of(path) for path in paths] == [0o600, 0o600]
    for path in paths:
        path.chmod(0o644)
    assert JsonTable(Disk(), paths[0], private=True).load_latest() == {"version": 1}
    assert [mode_of(path) for path in paths] == [0o600, 0o600], "a start makes copied files private again"


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(0, 8), st.booleans())
def test_killed_at_any_save_the_last_content_or_the_one_before_it_is_there(
    versions: list[int], saves: int, loads_first: bool
) -> None:
    disk = Interrupted(KeyboardInterrupt())
    table = JsonTable(disk, PATH)
    if loads_first:
        table.load()
    disk.saves_left = saves
    allowed: list[dict[str, Any] | None] = [None]
    for version in versions:
        value = {"version": version}
        try:
            table.save(value)
        except KeyboardInterrupt:
            allowed.append(value)
            break
        allowed = [value]
    assert JsonTable(disk.after_kill(), PATH).load() in allowed
