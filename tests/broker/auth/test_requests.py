"""Requests 3001 to 3010: the codes, texts and bodies of a Java broker 5.5.0 (its texts as they were seen)."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import Bench, GatedDisk, serving

from cometmq.access.directory import Directory
from cometmq.access.policies import Acl, PolicyEntry
from cometmq.access.users import User, UserStatus, UserType
from cometmq.broker.auth.requests import DONE, NO_BODY, AccessRequests
from cometmq.broker.auth.tables import AccessTables
from cometmq.broker.auth_settings import AuthSettings
from cometmq.broker.request_body import RequestBodies
from cometmq.io.files import FileLayer
from cometmq.store.tables import JsonTable
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire import headers as h
from cometmq.wire.acl import ACCESS_KEY
from cometmq.wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo, decode_list
from cometmq.wire.bodies.body import LIMITS, decode, encode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.requests import TO_BROKERS

ENTRY = PolicyEntryInfo("Topic:T*", ["Pub", "Sub"], ["127.0.0.1"], "Allow")
OTHER = PolicyEntryInfo("Group:g", ["Sub"], None, "Deny")
NORMAL: dict[str, Any] = {ACCESS_KEY: "normal"}
SUPER: dict[str, Any] = {ACCESS_KEY: "root"}


class Desk:
    """A broker whose users and acls are there, without a guard before them."""

    def __init__(self, bench: Bench, directory: Directory) -> None:
        self.bench = bench
        self.directory = directory

    async def ask(
        self,
        code: RequestCode,
        header: h.Header,
        body: UserInfo | AclInfo | bytes = b"",
        sender: dict[str, str] | None = None,
    ) -> tuple[int, str | None, bytes]:
        """Send a request in the name of a user; return the code, the remark and the body of the answer."""
        data = body if isinstance(body, bytes) else encode(body)
        command = Command(code, ext_fields=h.fields(header) | (sender or {}), body=data)
        answer = await self.bench.connection.request(command)
        return answer.code, answer.remark, answer.body


@asynccontextmanager
async def desk(root: Path, files: FileLayer | None = None) -> AsyncIterator[Desk]:
    """Serve with a super user ``root`` and a normal one."""
    files = files or MemoryDisk()
    async with serving(root) as bench:
        directory = Directory()
        users, acls = (
            JsonTable(files, Path(f"/store/config/{name}.json"), private=True) for name in ("users", "acls")
        )
        tables = AccessTables(directory, users, acls)
        tables.load()
        directory.create(User("root", "secret", UserType.SUPER))
        directory.create(User("normal", "secret"))
        await tables.stop()
        requests = AccessRequests(
            directory,
            tables,
            AuthSettings(users_max=1_000, acl_entries_max=3),
            bench.parts.reads,
            RequestBodies(LIMITS),
        )
        handlers: Any = bench.parts.requests._handlers
        handlers |= {
            int(code): (handle, TO_BROKERS[code].header) for code, handle in requests.handlers().items()
        }
        yield Desk(bench, directory)
        await tables.stop()


OK = (ResponseCode.SUCCESS, DONE, b"")


async def test_a_user_is_created_shown_changed_and_deleted(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        info = UserInfo("ignored", "12345678", "Normal")
        assert await here.ask(RequestCode.AUTH_CREATE_USER, h.UserHeader("u1"), info) == OK
        shown = await here.ask(RequestCode.AUTH_GET_USER, h.UserHeader("u1"), sender=SUPER)
        assert shown == (
            ResponseCode.SUCCESS,
            DONE,
            b'{"password":"12345678","userStatus":"enable","userType":"Normal","username":"u1"}',
        )
        change = UserInfo(user_status="disable")
        assert await here.ask(RequestCode.AUTH_UPDATE_USER, h.UserHeader("u1"), change) == OK
        assert here.directory.find("u1") == User("u1", "12345678", status=UserStatus.DISABLE)
        assert await here.ask(RequestCode.AUTH_DELETE_USER, h.UserHeader("u1")) == OK
        assert here.directory.find("u1") is None
        assert await here.ask(RequestCode.AUTH_GET_USER, h.UserHeader("u1")) == OK
        assert await here.ask(RequestCode.AUTH_DELETE_USER, h.UserHeader("u1")) == OK


async def test_users_are_listed_by_a_part_of_their_name(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        code, remark, body = await here.ask(RequestCode.AUTH_LIST_USER, h.UserFilterHeader())
        assert (code, remark) == (ResponseCode.SUCCESS, DONE)
        assert [user.username for user in decode_list(UserInfo, body)] == ["normal", "root"]
        _, _, body = await here.ask(RequestCode.AUTH_LIST_USER, h.UserFilterHeader("oo"))
        assert [user.username for user in decode_list(UserInfo, body)] == ["root"]
        assert await here.ask(RequestCode.AUTH_LIST_USER, h.UserFilterHeader("x")) == OK


@pytest.mark.parametrize(
    ("sender", "passwords"),
    [(SUPER, ["secret", "secret"]), (NORMAL, ["secret", None]), (None, [None, None])],
)
async def test_only_super_users_are_sent_the_passwords_of_others(
    tmp_path: Path, sender: dict[str, str] | None, passwords: list[str | None]
) -> None:
    async with desk(tmp_path) as here:
        _, _, body = await here.ask(RequestCode.AUTH_LIST_USER, h.UserFilterHeader(), sender=sender)
        assert [user.password for user in decode_list(UserInfo, body)] == passwords
        for name, password in zip(("normal", "root"), passwords, strict=True):
            _, _, body = await here.ask(RequestCode.AUTH_GET_USER, h.UserHeader(name), sender=sender)
            assert decode(UserInfo, body).password == password


async def test_many_users_are_listed_too(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        for number in range(600):
            here.directory.create(User(f"u{number:03}", "secret"))
        _, _, body = await here.ask(RequestCode.AUTH_LIST_USER, h.UserFilterHeader("u"))
        assert len(decode_list(UserInfo, body)) == 600


@pytest.mark.parametrize(
    ("code", "name", "info", "sender", "refusal"),
    [
        (3001, "", UserInfo(None, "p"), None, (29, "The username is blank")),
        (3002, "", UserInfo(None, "p"), None, (29, "The username is blank")),
        (3004, "", b"", None, (29, "The username is blank")),
        (3001, "normal", UserInfo(None, "p"), None, (16, "The user is existed")),
        (3001, "new", UserInfo(), None, (16, "password can not be blank")),
        (3002, "new", UserInfo(None, "p"), None, (16, "The user is not exist")),
        (
            *(3001, "new", UserInfo(None, "p", "Super"), NORMAL),
            (1, "The super user can only be create by super user"),
        ),
        (
            *(3002, "normal", UserInfo(None, None, "super"), NORMAL),
            (1, "The super user can only be update by super user"),
        ),
        (
            *(3002, "root", UserInfo(None, "p"), NORMAL),
            (16, "The super user can only be update by super user"),
        ),
        (3003, "root", b"", NORMAL, (16, "The super user can only be update by super user")),
        (
            *(3001, "new", UserInfo(None, "p", "Super"), {ACCESS_KEY: "nobody"}),
            (1, "The super user can only be create by super user"),
        ),
    ],
)
async def test_what_is_wrong_with_a_user_is_said_in_rocketmqs_words(
    tmp_path: Path,
    code: int,
    name: str,
    info: UserInfo | bytes,
    sender: dict[str, str] | None,
    refusal: tuple[int, str],
) -> None:
    async with desk(tmp_path) as here:
        before = here.directory.snapshot()
        answer = await here.ask(RequestCode(code), h.UserHeader(name), info, sender)
        assert answer == (*refusal, b"")
        assert here.directory.snapshot() == before


@pytest.mark.parametrize("sender", [None, SUPER])
async def test_a_super_user_and_nobody_in_particular_may_make_super_users(
    tmp_path: Path, sender: dict[str, str] | None
) -> None:
    async with desk(tmp_path) as here:
        info = UserInfo(None, "p", "Super")
        assert await here.ask(RequestCode.AUTH_CREATE_USER, h.UserHeader("boss"), info, sender) == OK
        assert await here.ask(RequestCode.AUTH_UPDATE_USER, h.UserHeader("root"), info, sender) == OK
        assert await here.ask(RequestCode.AUTH_DELETE_USER, h.UserHeader("boss"), b"", sender) == OK


async def test_a_user_without_a_body_is_refused(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        code, remark, _ = await here.ask(RequestCode.AUTH_CREATE_USER, h.UserHeader("u1"))
        assert code == ResponseCode.SYSTEM_ERROR and "JSON" in (remark or "")


def acl(*entries: PolicyEntryInfo, kind: str = "Custom", subject: str | None = "User:normal") -> AclInfo:
    return AclInfo(subject, [PolicyInfo(kind, list(entries))])


SUBJECT = h.SubjectHeader("User:normal")


@pytest.mark.parametrize("code", [RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL])
async def test_entries_are_added_and_those_of_the_same_resource_replaced(
    tmp_path: Path, code: RequestCode
) -> None:
    async with desk(tmp_path) as here:
        assert await here.ask(code, SUBJECT, acl(ENTRY)) == OK
        assert await here.ask(code, SUBJECT, acl(OTHER, subject=None)) == OK
        changed = PolicyEntryInfo("Topic:T*", ["All"], None, "Deny")
        assert await here.ask(code, SUBJECT, acl(changed)) == OK
        assert await here.ask(code, SUBJECT, acl(ENTRY, kind="Default")) == OK
        _, remark, body = await here.ask(RequestCode.AUTH_GET_ACL, SUBJECT)
        assert remark == DONE
        assert decode(AclInfo, body) == AclInfo(
            "User:normal", [PolicyInfo("Custom", [changed, OTHER]), PolicyInfo("Default", [ENTRY])]
        )


async def test_acls_are_listed_by_parts_of_subject_and_resource(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        assert await here.ask(RequestCode.AUTH_LIST_ACL, h.AclFilterHeader()) == OK
        await here.ask(RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(ENTRY, OTHER))
        listed = await here.ask(RequestCode.AUTH_LIST_ACL, h.AclFilterHeader("norm", "Group"))
        assert decode_list(AclInfo, listed[2]) == [acl(OTHER)]
        assert await here.ask(RequestCode.AUTH_LIST_ACL, h.AclFilterHeader("root")) == OK
        assert await here.ask(RequestCode.AUTH_LIST_ACL, h.AclFilterHeader(None, "Topic:X")) == OK


async def test_one_entry_is_deleted_and_with_the_last_one_the_acl(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        await here.ask(RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(ENTRY, OTHER))
        await here.ask(RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(OTHER, kind="Default"))
        for kind, resource in ((None, "Topic:T*"), ("Default", "Group:g"), ("Custom", "Group:g")):
            header = h.DeleteAclHeader("User:normal", kind, resource)
            assert await here.ask(RequestCode.AUTH_DELETE_ACL, header) == OK
        assert here.directory.acl("normal") is None
        gone = await here.ask(RequestCode.AUTH_DELETE_ACL, h.DeleteAclHeader("User:normal"))
        assert gone == (16, "The acl is not exist.", b"")
        assert await here.ask(RequestCode.AUTH_GET_ACL, SUBJECT) == OK


async def test_a_whole_acl_is_deleted_alone_or_with_its_user(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        await here.ask(RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(ENTRY, OTHER))
        assert await here.ask(RequestCode.AUTH_DELETE_ACL, h.DeleteAclHeader("User:normal")) == OK
        assert here.directory.acls() == []
        await here.ask(RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(ENTRY))
        await here.ask(RequestCode.AUTH_DELETE_USER, h.UserHeader("normal"))
        assert here.directory.acls() == []


@pytest.mark.parametrize(
    ("subject", "info", "refusal"),
    [
        ("User:x", acl(ENTRY, subject="User:x"), (16, "The subject of User:x is not exist.")),
        ("Role:x", acl(ENTRY, subject=None), (16, "The subject type is null.")),
        ("User:normal", b"", (1, NO_BODY)),
        ("User:normal", AclInfo("User:normal"), (1, NO_BODY)),
        ("User:normal", acl(), (16, "The policy entries is empty.")),
        ("User:normal", acl(PolicyEntryInfo("T", ["Pub"], None, "Allow")), (16, "The resource is null.")),
        ("User:normal", acl(PolicyEntryInfo("*", ["Fly"], None, "Allow")), (16, "The actions is empty.")),
        (
            *("User:normal", acl(PolicyEntryInfo("*", ["Any"], None, "Allow"))),
            (16, "The actions can not be Any."),
        ),
        (
            *("User:normal", acl(PolicyEntryInfo("*", ["Pub"], ["x"], "Allow"))),
            (16, "The source ip is invalid."),
        ),
        (
            *("User:normal", acl(PolicyEntryInfo("*", ["Pub"], None, None))),
            (16, "The decision is null or illegal."),
        ),
    ],
)
async def test_what_is_wrong_with_an_acl_is_said_in_rocketmqs_words(
    tmp_path: Path, subject: str, info: AclInfo | bytes, refusal: tuple[int, str]
) -> None:
    async with desk(tmp_path) as here:
        answer = await here.ask(RequestCode.AUTH_CREATE_ACL, h.SubjectHeader(subject), info)
        assert answer == (*refusal, b"")
        assert here.directory.acls() == []


async def test_what_would_not_do_what_its_text_says_is_refused(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        for entry, remedy in (
            (PolicyEntryInfo("Topic:*secret", ["All"], None, "Deny"), "a * can only be the last character"),
            (PolicyEntryInfo("Topic:a*b*", ["Pub"], None, "Allow"), "a * can only be the last character"),
            (PolicyEntryInfo("Group:%RETRY%", ["Sub"], None, "Allow"), "name one, or all: Group:*"),
            (PolicyEntryInfo("Topic:t", ["Pub", "Sbu"], None, "Deny"), "'Sbu' is unknown"),
            (PolicyEntryInfo("Topic:t", ["Pub"], ["10.0.0.5/8"], "Allow"), "use 10.0.0.0/8"),
        ):
            for code in (RequestCode.AUTH_CREATE_ACL, RequestCode.AUTH_UPDATE_ACL):
                answer, remark, _ = await here.ask(code, SUBJECT, acl(entry))
                assert answer == 16 and remedy in (remark or "")
        assert here.directory.acls() == []
        info = UserInfo(None, "secret", "Normal", "disabled")
        for code in (RequestCode.AUTH_CREATE_USER, RequestCode.AUTH_UPDATE_USER):
            _, remark, _ = await here.ask(code, h.UserHeader("normal"), info)
            assert remark == "The user status 'disabled' is unknown: use enable, disable."


async def test_an_entry_for_nothing_that_was_once_kept_can_be_deleted(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        here.directory.put_acl(Acl("normal", (PolicyEntry.parse("Topic:*secret", ["All"], None, "Deny"),)))
        header = h.DeleteAclHeader("User:normal", "Custom", "Topic:*secret")
        assert await here.ask(RequestCode.AUTH_DELETE_ACL, header) == OK
        assert here.directory.acl("normal") is None


async def test_users_and_entries_have_a_limit(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        for number in range(998):
            here.directory.create(User(f"u{number}", "secret"))
        code, remark, _ = await here.ask(
            RequestCode.AUTH_CREATE_USER, h.UserHeader("more"), UserInfo(None, "p")
        )
        assert code == ResponseCode.INVALID_PARAMETER and "1000 users (usersMax)" in (remark or "")
        entries = [PolicyEntryInfo(f"Topic:T{number}", ["Pub"], None, "Allow") for number in range(3)]
        assert await here.ask(RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(*entries)) == OK
        assert await here.ask(RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(*entries)) == OK
        code, remark, _ = await here.ask(RequestCode.AUTH_CREATE_ACL, SUBJECT, acl(ENTRY, kind="Default"))
        assert code == ResponseCode.INVALID_PARAMETER and "would have 4 entries, at most 3" in (remark or "")


async def test_the_acl_of_an_unknown_user_is_neither_shown_nor_deleted(tmp_path: Path) -> None:
    async with desk(tmp_path) as here:
        refusal = (16, "The subject is not exist.", b"")
        assert await here.ask(RequestCode.AUTH_GET_ACL, h.SubjectHeader("User:x")) == refusal
        assert await here.ask(RequestCode.AUTH_DELETE_ACL, h.DeleteAclHeader("User:x")) == refusal


async def test_a_change_that_the_disk_refuses_is_not_one(tmp_path: Path) -> None:
    disk = GatedDisk()
    async with desk(tmp_path, disk) as here:
        disk.space_bytes = 0
        info = UserInfo(None, "p")
        code, remark, _ = await here.ask(RequestCode.AUTH_CREATE_USER, h.UserHeader("u1"), info)
        assert code == ResponseCode.SERVICE_NOT_AVAILABLE and "disk full" in (remark or "")
        assert here.directory.find("u1") is None


async def test_without_authentication_all_of_them_are_refused_with_the_remedy(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for number in range(3001, 3011):
            header = h.SubjectHeader("User:u") if number >= 3006 else h.UserHeader("u")
            answer = await bench.ask(RequestCode(number), header)
            assert answer.code == ResponseCode.NO_PERMISSION
            assert "authenticationEnabled=true" in (answer.remark or "")
