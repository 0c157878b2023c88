"""The accounts of RocketMQ 4.x become users, as its migration makes them, and follow their file."""

import os
from pathlib import Path

import pytest
from tests.kit.accounts import SAMPLE, account, put, users_of

from cometmq.access.decision import Permission, decide
from cometmq.access.directory import Directory
from cometmq.access.infos import info_of_acl
from cometmq.access.policies import Acl
from cometmq.access.users import User, UserType
from cometmq.broker.auth.plain_acl import PlainAcl, migrate, read_accounts
from cometmq.errors import SettingsError
from cometmq.wire.bodies.access import PolicyEntryInfo, PolicyInfo
from cometmq.wire.requests import Action, Resource

DELIVERED = """\
globalWhiteRemoteAddresses:
  - 10.10.103.*

accounts:
  - accessKey: RocketMQ
    secretKey: 12345678
    whiteRemoteAddress:
    admin: false
    defaultTopicPerm: DENY
    defaultGroupPerm: SUB
    topicPerms:
      - topicA=DENY
      - topicB=PUB|SUB
      - topicC=SUB
    groupPerms:
      # the group should convert to retry topic
      - groupA=DENY
      - groupB=PUB|SUB
      - groupC=SUB

  - accessKey: rocketmq2
    secretKey: 12345678
    whiteRemoteAddress: 192.168.1.*
    # if it is admin, it could access all resources
    admin: true
"""
READ = ["Sub", "Get"]
BOTH = ["Pub", "Sub", "Get"]


def test_the_delivered_file_is_migrated_as_rocketmq_does_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, DELIVERED)
    directory = Directory()
    assert migrate(tmp_path, directory) == ["RocketMQ", "rocketmq2"]
    assert directory.users() == [
        User("RocketMQ", "12345678"),
        User("rocketmq2", "12345678", UserType.SUPER),
    ]
    (acl,) = directory.acls()
    assert info_of_acl(acl).policies == [
        PolicyInfo(
            "Custom",
            [
                PolicyEntryInfo("Topic:topicA", ["All"], None, "Deny"),
                PolicyEntryInfo("Topic:topicB", BOTH, None, "Allow"),
                PolicyEntryInfo("Topic:topicC", READ, None, "Allow"),
                PolicyEntryInfo("Group:groupA", ["All"], None, "Deny"),
                PolicyEntryInfo("Group:groupB", BOTH, None, "Allow"),
                PolicyEntryInfo("Group:groupC", READ, None, "Allow"),
            ],
        ),
        PolicyInfo(
            "Default",
            [
                PolicyEntryInfo("Topic:*", ["All"], None, "Deny"),
                PolicyEntryInfo("Group:*", READ, None, "Allow"),
            ],
        ),
    ]
    assert "clients at 10.10.103.*, 192.168.1.* must sign their requests, too" in caplog.text


def test_a_user_that_is_there_already_is_not_migrated_again(tmp_path: Path) -> None:
    put(tmp_path, DELIVERED)
    directory = Directory()
    directory.create(User("RocketMQ", "changed since"))
    assert migrate(tmp_path, directory) == ["rocketmq2"]
    assert directory.find("RocketMQ") == User("RocketMQ", "changed since")
    assert directory.acl("RocketMQ") is None


def test_what_an_account_may_do_is_what_its_file_says(tmp_path: Path) -> None:
    put(tmp_path, DELIVERED)
    directory = Directory()
    migrate(tmp_path, directory)
    user = directory.find("RocketMQ")
    assert user is not None

    def may(kind: Resource, name: str, action: Action) -> bool:
        return decide(
            user, directory.acl("RocketMQ"), Permission(kind, name, (action,)), "127.0.0.1"
        ).is_allowed

    topic, group = Resource.TOPIC, Resource.GROUP
    assert may(topic, "topicB", Action.PUB) and may(topic, "topicC", Action.SUB)
    assert may(topic, "topicC", Action.GET), "a new group asks for a topic's offsets"
    assert not may(topic, "topicC", Action.PUB) and not may(topic, "topicA", Action.SUB)
    assert not may(topic, "other", Action.PUB)
    assert may(group, "other", Action.SUB) and not may(group, "groupA", Action.SUB)
    assert not may(Resource.CLUSTER, "DefaultCluster", Action.GET)


def test_names_of_no_topic_are_passed_over_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = "topicPerms: ['orders=PUB', 'secret*=DENY', '%RETRY%g=SUB']"
    put(tmp_path, "accounts:\n" + account("one", lines))
    (one,) = read_accounts(tmp_path)
    acl = one.acl()
    assert acl is not None
    assert [str(entry.resource) for entry in acl.custom] == ["Topic:orders", "Group:g"]
    assert "account one: no topic or group can be called Topic:secret*: name each by itself" in caplog.text


def test_all_files_count_and_the_names_of_groups_lose_their_retry_prefix(tmp_path: Path) -> None:
    put(tmp_path, "accounts:\n" + account("one", "groupPerms: ['%RETRY%g=SUB']"))
    put(tmp_path, "accounts:\n" + account("two"), "acl/deep/two.yaml")
    put(tmp_path, "not read: [", "acl/three.txt")
    accounts = read_accounts(tmp_path)
    assert [one.access_key for one in accounts] == ["one", "two"]
    acl = accounts[0].acl()
    assert acl is not None and str(acl.custom[0].resource) == "Group:g"
    assert accounts[1].acl() is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("accounts: [", "plain_acl.yml: line 1: expected the node content, but found"),
        ("accounts:\n- accessKey: a\n", "missing required field `secretKey` - at `$.accounts[0]`"),
        ("accounts:\n" + account("a", "admin: perhaps"), "`$.accounts[0].admin`"),
        ("accounts:\n" + account("a", "topicPerm: [T=PUB]"), "unknown field `topicPerm`"),
        ("accounts:\n" + account("a", "topicPerms: T=PUB"), "`$.accounts[0].topicPerms`"),
        ("accounts:\n" + account("a", "topicPerms: [T]"), "Topic:T has the permission '': use DENY, PUB"),
        ("accounts:\n" + account("a", "topicPerms: [T=ANY]"), "Topic:T has the permission 'ANY'"),
        ("accounts:\n" + account("a", "topicPerms: ['=PUB']"), "'=PUB' is not NAME=PERMISSION"),
        ("accounts:\n" + account("a", "defaultTopicPerm: pub"), "Topic:* has the permission 'pub'"),
        ("accounts:\n" + account("a", secret='""'), "an account has an empty accessKey or secretKey"),
        ("accounts:\n" + account("a") + account("a"), "account a is there twice"),
        ("- accounts", "Expected `object`, got `array`"),
        ("accounts: \xff", "is not UTF-8 at byte"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_its_name_and_place(
    tmp_path: Path, text: str, reason: str
) -> None:
    put(tmp_path, "").write_bytes(text.encode("latin-1"))
    with pytest.raises(SettingsError) as refused:
        PlainAcl(tmp_path, Directory()).load()
    assert "plain_acl.yml" in str(refused.value) and reason in str(refused.value)


def test_no_password_is_in_an_error(tmp_path: Path) -> None:
    for text in ("*hidden", "hid: den", "'hidden", '"hid\\qden"', "[hidden", "{hidden: x, hidden: x}"):
        put(tmp_path, f"accounts:\n{account('a', secret=text)}")
        with pytest.raises(SettingsError) as refused:
            read_accounts(tmp_path)
        assert "hid" not in str(refused.value), text
    put(tmp_path, f"accounts:\n{account('a', secret='hidden')}")
    assert "hid" not in repr(read_accounts(tmp_path))


def test_where_no_file_is_there_it_is_said_where_one_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"conf/plain_acl\.yml is not there.*conf/acl: see rocketmqHome"):
        PlainAcl(tmp_path, Directory()).load()


async def test_a_changed_file_holds_once_it_has_rested(tmp_path: Path) -> None:
    put(tmp_path, "accounts:\n" + account("stays", "topicPerms: [T=PUB]") + account("goes"))
    directory = Directory()
    changes: list[None] = []
    plain = PlainAcl(tmp_path, directory)
    plain.load()
    directory.on_change.append(lambda: changes.append(None))
    directory.create(User("own", "secret"))
    changes.clear()
    await plain.round()
    await plain.round()
    assert users_of(directory) == ["goes", "own", "stays"] and changes == []

    put(tmp_path, "accounts:\n" + account("stays", "topicPerms: [T=SUB]") + account("comes"))
    await plain.round()
    assert users_of(directory) == ["goes", "own", "stays"], "it may still be being written"
    await plain.round()
    assert users_of(directory) == ["comes", "own", "stays"]
    assert [plain.is_account(name) for name in ("comes", "own", "stays", "goes")] == [
        True,
        False,
        True,
        False,
    ]
    acl = directory.acl("stays")
    assert acl is not None and Action.PUB not in acl.custom[0].actions


async def test_a_broken_file_changes_nothing_until_it_is_mended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(tmp_path, "accounts:\n" + account("a"))
    directory = Directory()
    plain = PlainAcl(tmp_path, directory)
    plain.load()
    for text in ("accounts: [", "accounts:\n" + account("a") + account("own")):
        directory.delete("own")
        directory.create(User("own", "secret"))
        put(tmp_path, text)
        await plain.round()
        await plain.round()
        assert users_of(directory) == ["a", "own"]
    assert (
        "line 1" in caplog.text and "account own" in caplog.text and "is a user of the broker" in caplog.text
    )
    os.unlink(tmp_path / "conf" / "plain_acl.yml")
    await plain.round()
    await plain.round()
    assert users_of(directory) == ["a", "own"] and "is not there" in caplog.text
    put(tmp_path, "accounts:\n" + account("b"))
    await plain.round()
    await plain.round()
    assert users_of(directory) == ["b", "own"]


def test_what_was_undone_is_applied_again(tmp_path: Path) -> None:
    put(tmp_path, "accounts:\n" + account("a", "topicPerms: [T=PUB]"))
    directory = Directory()
    plain = PlainAcl(tmp_path, directory)
    plain.load()
    wanted: Acl | None = directory.acl("a")
    directory.restore({}, {})
    plain.apply()
    assert users_of(directory) == ["a"] and directory.acl("a") == wanted is not None


def test_the_longer_sample_is_read_too(tmp_path: Path) -> None:
    put(tmp_path, SAMPLE)
    assert [one.admin for one in read_accounts(tmp_path)] == [False, True]


def test_a_file_that_waits_for_a_writer_is_not_opened(tmp_path: Path) -> None:
    path = put(tmp_path, "")
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(SettingsError, match="cannot be read: is a FIFO, not a regular file"):
        read_accounts(tmp_path)
