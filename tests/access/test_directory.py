import json
import re

import pytest

from cometmq.access.directory import Directory
from cometmq.access.policies import Acl, Pattern, PolicyEntry, PolicyType
from cometmq.access.users import User, UserStatus, UserType
from cometmq.errors import AccessError, FormatError


def directory(*names: str) -> Directory:
    made = Directory()
    for name in names:
        made.create(User(name, f"{name}'s"))
    return made


def entry(resource: str) -> PolicyEntry:
    return PolicyEntry.parse(resource, ["Pub", "Sub"], ["10.0.0.0/8"], "Allow")


def refusal(text: str) -> "pytest.RaisesExc[AccessError]":
    return pytest.raises(AccessError, match=f"^{re.escape(text)}$")


def test_users_are_found_by_name_or_by_a_part_of_it() -> None:
    users = directory("bob", "ann", "anna")
    assert users.find("ann") == User("ann", "ann's")
    assert users.find("eve") is None
    assert [user.name for user in users.users()] == ["ann", "anna", "bob"]
    assert [user.name for user in users.users("nn")] == ["ann", "anna"]


def test_a_user_that_cannot_be_made_is_refused() -> None:
    users = directory("ann")
    with refusal("The user is existed"):
        users.create(User("ann", "x"))
    with refusal("username can not be blank"):
        users.create(User(" ", "x"))
    with refusal("password can not be blank"):
        users.create(User("bob", ""))
    assert [user.name for user in users.users()] == ["ann"]


def test_an_update_changes_what_it_names() -> None:
    users = directory("ann")
    users.update("ann", status=UserStatus.DISABLE)
    users.update("ann", type=UserType.SUPER, password=" ")
    assert users.find("ann") == User("ann", "ann's", UserType.SUPER, UserStatus.DISABLE)
    users.update("ann", password="new")
    assert users.find("ann") == User("ann", "new", UserType.SUPER, UserStatus.DISABLE)
    with refusal("The user is not exist"):
        users.update("eve", password="x")


def test_a_deleted_user_takes_its_acl_along() -> None:
    users = directory("ann")
    users.put_acl(Acl("ann", (entry("Topic:T"),)))
    users.delete("ann")
    users.delete("ann")
    users.create(User("ann", "x"))
    assert users.acl("ann") is None


def test_an_acl_without_its_user_is_refused() -> None:
    users = directory("ann")
    with refusal("The subject of User:eve is not exist."):
        users.put_acl(Acl("eve", (entry("Topic:T"),)))
    with refusal("The subject is not exist."):
        users.delete_acl("eve")
    with refusal("The acl is not exist."):
        users.delete_acl("ann")


def test_an_acl_goes_with_its_last_entry() -> None:
    users = directory("ann")
    users.put_acl(Acl("ann", (entry("Topic:T"), entry("Topic:U")), (entry("Topic:*"),)))
    users.delete_acl("ann", PolicyType.CUSTOM, Pattern.parse("Topic:T"))
    assert users.acl("ann") == Acl("ann", (entry("Topic:U"),), (entry("Topic:*"),))
    users.delete_acl("ann", PolicyType.CUSTOM, Pattern.parse("Topic:U"))
    users.delete_acl("ann", PolicyType.DEFAULT, Pattern.parse("Topic:*"))
    assert users.acl("ann") is None


def test_acls_are_listed_by_parts_of_subject_and_resource() -> None:
    users = directory("ann", "bob")
    users.put_acl(Acl("ann", (entry("Topic:T"), entry("Group:g"))))
    users.put_acl(Acl("bob", (entry("Topic:U"),)))
    assert [acl.user for acl in users.acls()] == ["ann", "bob"]
    assert users.acls("User:a", "Group") == [Acl("ann", (entry("Group:g"),))]
    assert users.acls("", "Cluster") == []


def test_a_directory_is_restored_from_its_snapshot() -> None:
    users = directory("ann", "bob")
    users.update("bob", type=UserType.SUPER, status=UserStatus.DISABLE)
    users.put_acl(Acl("ann", (entry("Topic:T*"), entry("*")), (entry("Group:*"),)))
    snapshot = users.snapshot()
    plain = json.loads(json.dumps([snapshot.plain_users(), snapshot.plain_acls()]))
    restored = Directory()
    restored.restore(*plain)
    assert restored.users() == users.users() and restored.user_count == 2
    assert restored.acls() == users.acls()


def test_a_change_is_reverted_and_no_snapshot_changes_with_its_directory() -> None:
    users = directory("ann", "bob")
    users.put_acl(Acl("ann", (entry("Topic:T"),)))
    snapshot = users.snapshot()
    users.delete("ann")
    users.create(User("eve", "x"))
    users.revert(snapshot)
    users.delete("bob")
    assert [user.name for user in users.users()] == ["ann"] and users.acl("ann") is not None
    assert set(snapshot.users) == {"ann", "bob"}


@pytest.mark.parametrize(
    ("users", "acls"),
    [
        ({"ann": {}}, {}),
        ({"ann": {"password": 5}}, {}),
        ({"ann": {"password": "x", "type": "King"}}, {}),
        ({}, {"ann": {"Custom": [], "Default": []}}),
        ({"ann": {"password": "x"}}, {"ann": {"Custom": [{}], "Default": []}}),
        ({"ann": {"password": "x"}}, {"ann": {"Custom": []}}),
    ],
)
def test_content_that_no_broker_has_saved_is_refused(
    users: dict[str, object], acls: dict[str, object]
) -> None:
    kept = directory("bob")
    with pytest.raises(FormatError):
        kept.restore(users, acls)
    assert [user.name for user in kept.users()] == ["bob"]


def test_each_change_is_told() -> None:
    users, changes = directory("ann"), []
    users.on_change.append(lambda: changes.append(1))
    users.create(User("bob", "x"))
    users.update("bob", password="y")
    users.put_acl(Acl("bob", (entry("*"),)))
    users.delete_acl("bob")
    users.delete("bob")
    users.revert(directory().snapshot())
    assert len(changes) == 6
