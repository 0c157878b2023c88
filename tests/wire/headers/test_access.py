from collections.abc import Callable

import pytest

from cometmq.wire import headers as h


@pytest.mark.parametrize(
    ("header", "java_name"),
    [
        (h.UserHeader, "CreateUserRequestHeader"),
        (h.UserHeader, "UpdateUserRequestHeader"),
        (h.UserHeader, "DeleteUserRequestHeader"),
        (h.UserHeader, "GetUserRequestHeader"),
        (h.UserFilterHeader, "ListUsersRequestHeader"),
        (h.SubjectHeader, "CreateAclRequestHeader"),
        (h.SubjectHeader, "UpdateAclRequestHeader"),
        (h.SubjectHeader, "GetAclRequestHeader"),
        (h.DeleteAclHeader, "DeleteAclRequestHeader"),
        (h.AclFilterHeader, "ListAclsRequestHeader"),
    ],
)
def test_is_like_java(
    header: type[h.Header], java_name: str, differences: Callable[[type[h.Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []
