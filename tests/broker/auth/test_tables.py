"""Users and acls on the disk: private, whole, and undone where the disk refuses."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import GatedDisk
from tests.store.conftest import Interrupted

from cometmq.access.directory import Directory
from cometmq.access.policies import Acl, Decision, Pattern, PolicyEntry
from cometmq.access.users import User, UserStatus
from cometmq.broker.auth.tables import AccessTables
from cometmq.errors import AccessError, StoreDamaged, StoreNotWritable
from cometmq.format.layout import backup_path
from cometmq.io.files import FileLayer
from cometmq.store.tables import JsonTable
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.requests import Action

ROOT = Path("/store/config")
USERS, ACLS = ROOT / "users.json", ROOT / "acls.json"
ENTRY = PolicyEntry(Pattern.parse("Topic:T*"), (Action.PUB,), (), Decision.ALLOW)


def opened(disk: FileLayer, **callbacks: Any) -> tuple[Directory, AccessTables]:
    """Read a directory from a disk, as a start does."""
    directory = Directory()
    tables = AccessTables(
        directory, JsonTable(disk, USERS, private=True), JsonTable(disk, ACLS, private=True), **callbacks
    )
    tables.load()
    return directory, tables


async def outcome_of(tables: AccessTables) -> StoreNotWritable | None:
    """Wait until the present changes are saved or refused."""
    done: asyncio.Future[StoreNotWritable | None] = asyncio.get_running_loop().create_future()
    tables.when_saved(done.set_result)
    return await done


async def test_what_is_saved_is_there_after_a_start() -> None:
    disk = MemoryDisk()
    directory, tables = opened(disk)
    directory.create(User("u1", "secret"))
    directory.put_acl(Acl("u1", (ENTRY,)))
    assert await outcome_of(tables) is None
    directory.update("u1", status=UserStatus.DISABLE)
    await tables.stop()
    again, _ = opened(disk.after_kill())
    assert again.users() == [User("u1", "secret", status=UserStatus.DISABLE)]
    assert again.acl("u1") == Acl("u1", (ENTRY,))
    assert disk.private == {USERS, backup_path(USERS), ACLS}
    assert json.loads(disk.load(USERS))["users"]["u1"]["status"] == "disable"


async def test_entries_for_nothing_do_not_stop_a_start_and_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    disk = MemoryDisk()
    directory, tables = opened(disk)
    directory.create(User("u1", "secret"))
    void = tuple(PolicyEntry.parse(one, ["All"], None, "Deny") for one in ("Topic:*secret", "Group:"))
    directory.put_acl(Acl("u1", (ENTRY, *void)))
    await tables.stop()
    again, _ = opened(disk.after_kill())
    assert again.acl("u1") == Acl("u1", (ENTRY, *void))
    first, second = [one.getMessage() for one in caplog.records]
    assert first.startswith(f"{ACLS}: of User:u1: The resource 'Topic:*secret' matches nothing: ")
    assert second == f"{ACLS}: of User:u1: The resource 'Group:' matches nothing: name one, or all: Group:*."


async def test_nothing_was_changed_is_known_at_once() -> None:
    _, tables = opened(MemoryDisk())
    seen: list[StoreNotWritable | None] = []
    tables.when_saved(seen.append)
    assert seen == [None]


async def test_changes_of_a_turn_are_one_write_and_later_ones_the_next() -> None:
    disk = GatedDisk()
    directory, tables = opened(disk)
    disk.saves.clear()
    directory.create(User("u1", "secret"))
    directory.create(User("u2", "secret"))
    first = asyncio.create_task(outcome_of(tables))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    directory.delete("u1")
    second = asyncio.create_task(outcome_of(tables))
    await asyncio.sleep(0)
    disk.saves.set()
    assert (await first, await second) == (None, None)
    assert [user.name for user in opened(disk.after_kill())[0].users()] == ["u2"]


async def test_who_waits_without_a_change_of_its_own_waits_for_the_write_under_way() -> None:
    disk = GatedDisk()
    directory, tables = opened(disk)
    disk.saves.clear()
    directory.create(User("u1", "secret"))
    first = asyncio.create_task(outcome_of(tables))
    for _ in range(3):
        await asyncio.sleep(0)
    second = asyncio.create_task(outcome_of(tables))
    await asyncio.sleep(0)
    disk.saves.set()
    async with asyncio.timeout(60):
        assert (await first, await second) == (None, None)


async def test_what_the_disk_refuses_is_undone_and_said_to_all_who_wait() -> None:
    disk = GatedDisk()
    undone: list[None] = []
    directory, tables = opened(disk, on_undone=lambda: undone.append(None))
    directory.create(User("u1", "secret"))
    await tables.stop()
    disk.saves.clear()
    disk.space_bytes = 0
    directory.delete("u1")
    first = asyncio.create_task(outcome_of(tables))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    directory.create(User("u2", "secret"))
    second = asyncio.create_task(outcome_of(tables))
    await asyncio.sleep(0)
    disk.saves.set()
    for error in (await first, await second):
        assert "disk full" in str(error)
    assert [user.name for user in directory.users()] == ["u1"] and undone == [None]
    disk.space_bytes = 2**40
    directory.create(User("u3", "secret"))
    assert await outcome_of(tables) is None
    assert [user.name for user in opened(disk.after_kill())[0].users()] == ["u1", "u3"]


async def test_rights_that_were_refused_with_their_users_are_not_there_after_a_start() -> None:
    class OneFull(MemoryDisk):
        is_full = False

        def save(self, path: Path, data: bytes) -> None:
            if self.is_full and path == USERS:
                raise OSError(28, "disk full", str(path))
            super().save(path, data)

    disk = OneFull()
    directory, tables = opened(disk)
    directory.create(User("u1", "old"))
    await tables.stop()
    disk.is_full = True
    directory.put_acl(Acl("u1", (ENTRY,)))
    directory.create(User("u2", "secret"))
    assert await outcome_of(tables) is not None
    again, _ = opened(disk.after_kill())
    assert [directory.acl("u1"), again.acl("u1")] == [None, None]
    assert [user.name for user in again.users()] == ["u1"]


async def test_users_that_are_defined_elsewhere_are_not_saved_nor_changed() -> None:
    disk = MemoryDisk()
    directory, tables = opened(disk, elsewhere=lambda name: name == "plain")
    directory.create(User("plain", "secret"))
    directory.put_acl(Acl("plain", (ENTRY,)))
    directory.create(User("own", "secret"))
    await tables.stop()
    again, _ = opened(disk)
    assert ([user.name for user in again.users()], again.acls()) == (["own"], [])
    tables.check_own("own")
    with pytest.raises(AccessError, match=r"User:plain is from plain_acl\.yml: change it there"):
        tables.check_own("plain")


@pytest.mark.parametrize("saves", range(5))
async def test_killed_at_any_save_no_user_has_the_acl_of_a_former_one_of_its_name(saves: int) -> None:
    disk = Interrupted(OSError(5, "killed"))
    directory, tables = opened(disk)
    directory.create(User("u1", "old"))
    directory.put_acl(Acl("u1", (ENTRY,)))
    await tables.stop()
    directory.delete("u1")
    directory.create(User("u1", "new"))
    disk.saves_left = saves
    await tables.stop()
    again, _ = opened(disk.after_kill())
    (user,) = again.users()
    assert (user.password, again.acl("u1")) in (("old", Acl("u1", (ENTRY,))), ("old", None), ("new", None))


async def test_an_acl_without_its_user_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    disk = MemoryDisk()
    directory, tables = opened(disk)
    directory.create(User("u1", "secret"))
    directory.put_acl(Acl("u1", (ENTRY,)))
    await tables.stop()
    disk.put(USERS, b'{"users":{}}')
    again, _ = opened(disk)
    assert again.acls() == [] and "passed over, as there are no such users: u1" in caplog.text


@pytest.mark.parametrize(
    ("path", "content"),
    [
        (USERS, b"{"),
        (USERS, b"[]"),
        (USERS, b'{"users":[]}'),
        (USERS, b"{}"),
        (USERS, b'{"users":{"u1":{"password":5}}}'),
        (ACLS, b'{"acls":{"u1":{"Custom":[{"resource":"x"}]}}}'),
        (ACLS, b'{"acls":{"u1":7}}'),
        (USERS, None),
        (ACLS, None),
    ],
)
async def test_a_file_that_cannot_be_used_stops_the_start_and_no_backup_stands_in(
    path: Path, content: bytes | None
) -> None:
    disk = MemoryDisk()
    directory, tables = opened(disk)
    for password in ("one", "two"):
        directory.delete("u1")
        directory.create(User("u1", password))
        directory.put_acl(Acl("u1", (ENTRY,)))
        await tables.stop()
        directory.delete_acl("u1")
        await tables.stop()
    if content is None:
        disk.remove(path)
    else:
        disk.put(path, content)
    with pytest.raises(StoreDamaged, match=r"users\.json|acls\.json") as damaged:
        opened(disk)
    assert ".bak" in str(damaged.value) and "two" not in str(damaged.value)
