"""A name server reads the users of a broker's files, and those only their owner can read."""

import json
import logging
import os
from pathlib import Path
from typing import Any

import pytest

from cometmq.access.directory import Directory
from cometmq.access.users import User, UserType
from cometmq.errors import SettingsError
from cometmq.namesrv.user_files import UserFiles
from cometmq.wire.acl import Credentials

ADMIN: dict[str, Any] = {"admin": {"password": "hidden", "type": "Super"}}
READER: dict[str, Any] = {"reader": {"password": "hidden"}}


def write(path: Path, content: Any, mode: int = 0o600) -> Path:
    path.write_text(json.dumps(content))
    path.chmod(mode)
    return path


def users_of(directory: Path, users: dict[str, Any]) -> Path:
    return write(directory / "users.json", {"users": users})


def test_the_users_are_those_of_the_file(tmp_path: Path) -> None:
    files = UserFiles(users_of(tmp_path, ADMIN | READER))
    assert files.directory.find("admin") == User("admin", "hidden", UserType.SUPER)
    assert files.directory.find("reader") == User("reader", "hidden")


def test_what_a_broker_saves_is_read_with_its_acls_but_for_those_of_users_who_are_gone(
    tmp_path: Path,
) -> None:
    path = users_of(tmp_path, READER)
    entry = {"resource": "Topic:T*", "actions": ["Sub"], "sources": [], "decision": "Allow"}
    acl = {"Custom": [entry], "Default": []}
    write(tmp_path / "acls.json", {"acls": {"reader": acl, "gone": acl}})
    (found,) = UserFiles(path).directory.acls()
    assert (found.user, str(found.custom[0].resource)) == ("reader", "Topic:T*")


def test_users_who_are_given_may_do_all_unless_the_file_has_them(tmp_path: Path) -> None:
    supers = [Credentials("admin", "first"), Credentials("reader", "first")]
    directory = UserFiles(users_of(tmp_path, READER), supers).directory
    assert directory.find("admin") == User("admin", "first", UserType.SUPER)
    assert directory.find("reader") == User("reader", "hidden")


def test_a_missing_file_is_refused_where_nobody_else_could_sign(tmp_path: Path) -> None:
    path = tmp_path / "users.json"
    with pytest.raises(SettingsError, match=r"users\.json: No such file"):
        UserFiles(path)
    files = UserFiles(path, [Credentials("admin", "first")])
    assert [user.name for user in files.directory.users()] == ["admin"]
    users_of(tmp_path, READER)
    files.refresh()
    assert [user.name for user in files.directory.users()] == ["admin", "reader"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_may_use_is_refused(tmp_path: Path, mode: int) -> None:
    path = write(tmp_path / "users.json", {"users": ADMIN}, mode)
    with pytest.raises(SettingsError, match=f"mode {mode:04o}.*chmod 600"):
        UserFiles(path)


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"users": []},
        {"people": {}},
        {"users": {"admin": {"type": "Super", "password": ["hidden"]}}},
        {"users": {"admin": {"password": "hidden", "type": "hidden"}}},
    ],
)
def test_a_file_of_something_else_is_refused_without_quoting_it(tmp_path: Path, content: Any) -> None:
    with pytest.raises(SettingsError, match=r"users\.json") as caught:
        UserFiles(write(tmp_path / "users.json", content))
    assert "hidden" not in str(caught.value).replace("'hidden'", "")


def test_a_change_of_the_file_holds_at_once_and_is_told(tmp_path: Path) -> None:
    files = UserFiles(users_of(tmp_path, ADMIN))
    told: list[Directory] = []
    files.directory.on_change.append(lambda: told.append(files.directory))
    files.refresh()
    assert told == []
    users_of(tmp_path, READER)
    files.refresh()
    assert told == [files.directory]
    assert [user.name for user in files.directory.users()] == ["reader"]


def test_a_change_that_cannot_be_used_is_logged_once_and_the_users_stay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = UserFiles(users_of(tmp_path, ADMIN))
    (tmp_path / "users.json").write_text("{")
    with caplog.at_level(logging.WARNING):
        files.refresh()
        files.refresh()
    assert [user.name for user in files.directory.users()] == ["admin"]
    (record,) = caplog.records
    assert "the users stay as they were" in record.getMessage()


@pytest.mark.parametrize("gone", ["users.json", "acls.json"])
def test_when_a_file_is_gone_that_was_there_the_users_stay_until_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, gone: str
) -> None:
    entry = {"resource": "Topic:T*", "actions": ["Sub"], "sources": [], "decision": "Allow"}
    acl: dict[str, Any] = {"Custom": [entry], "Default": []}
    write(tmp_path / "acls.json", {"acls": {"admin": acl}})
    files = UserFiles(users_of(tmp_path, ADMIN))
    (tmp_path / gone).rename(tmp_path / "away")
    for _ in range(2):
        files.refresh()
    assert [user.name for user in files.directory.users()] == ["admin"]
    assert [one.user for one in files.directory.acls()] == ["admin"]
    (record,) = caplog.records
    assert f"{gone}: is missing, and was there" in record.getMessage()
    (tmp_path / "away").rename(tmp_path / gone)
    users_of(tmp_path, READER)
    files.refresh()
    assert [user.name for user in files.directory.users()] == ["reader"]


def test_a_file_that_waits_for_a_writer_or_is_nested_without_end_is_one_that_cannot_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = users_of(tmp_path, ADMIN)
    files = UserFiles(path)
    path.write_text('{"users":' * 100_000)
    files.refresh()
    path.unlink()
    os.mkfifo(path, 0o600)
    files.refresh()
    assert [user.name for user in files.directory.users()] == ["admin"]
    broken, waiting = (record.getMessage() for record in caplog.records)
    assert "write {" in broken and "is a FIFO, not a regular file" in waiting
