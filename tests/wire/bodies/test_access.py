"""The bodies of requests about users and acls, as a Java broker 5.5.0 wrote them."""

import pytest

from cometmq.errors import FormatError
from cometmq.wire.bodies.access import (
    AclInfo,
    PolicyEntryInfo,
    PolicyInfo,
    UserInfo,
    decode_list,
    encode_list,
)
from cometmq.wire.bodies.body import decode, encode

USER = UserInfo("u1", "12345678", "Normal", "enable")
USER_TEXT = b'{"password":"12345678","userStatus":"enable","userType":"Normal","username":"u1"}'
ACL = AclInfo(
    "User:u1",
    [PolicyInfo("Custom", [PolicyEntryInfo("Topic:T*", ["Pub", "Sub"], ["127.0.0.1"], "Allow")])],
)
ACL_TEXT = (
    b'{"policies":[{"entries":[{"actions":["Pub","Sub"],"decision":"Allow","resource":"Topic:T*",'
    b'"sourceIps":["127.0.0.1"]}],"policyType":"Custom"}],"subject":"User:u1"}'
)


def test_a_user_is_written_and_read_as_java_does() -> None:
    assert encode(USER) == USER_TEXT
    assert decode(UserInfo, USER_TEXT) == USER


def test_an_acl_is_written_and_read_as_java_does() -> None:
    assert encode(ACL) == ACL_TEXT
    assert decode(AclInfo, ACL_TEXT) == ACL


def test_what_an_update_leaves_as_it_is_is_not_sent() -> None:
    assert encode(UserInfo(user_status="disable")) == b'{"userStatus":"disable"}'
    assert decode(UserInfo, b'{"userStatus":"disable","password":null}') == UserInfo(user_status="disable")


def test_a_list_is_an_array_and_an_empty_one_has_no_body() -> None:
    assert encode_list([USER, USER]) == b"[" + USER_TEXT + b"," + USER_TEXT + b"]"
    assert decode_list(UserInfo, encode_list([USER])) == [USER]
    assert encode_list([]) == b""
    assert decode_list(AclInfo, b"") == []
    assert decode_list(AclInfo, b"[" + ACL_TEXT + b"]") == [ACL]


@pytest.mark.parametrize("data", [b"{}", b"[1]", b'[{"subject":1}]', b"["])
def test_another_body_than_a_list_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError):
        decode_list(AclInfo, data)


def test_a_user_is_shown_without_its_password() -> None:
    assert repr(USER) == "UserInfo('u1', 'Normal', 'enable')"
