from collections.abc import Callable

import pytest

from cometmq.wire.headers.access import (
    AclFilterHeader,
    DeleteAclHeader,
    SubjectHeader,
    UserFilterHeader,
    UserHeader,
)
from cometmq.wire.headers.fields import Header


@pytest.mark.parametrize(
    ("header", "java_name"),
    [
        (UserHeader, "CreateUserRequestHeader"),
        (UserHeader, "UpdateUserRequestHeader"),
        (UserHeader, "DeleteUserRequestHeader"),
        (UserHeader, "GetUserRequestHeader"),
        (UserFilterHeader, "ListUsersRequestHeader"),
        (SubjectHeader, "CreateAclRequestHeader"),
        (SubjectHeader, "UpdateAclRequestHeader"),
        (SubjectHeader, "GetAclRequestHeader"),
        (DeleteAclHeader, "DeleteAclRequestHeader"),
        (AclFilterHeader, "ListAclsRequestHeader"),
    ],
)
def test_is_like_java(
    header: type[Header], java_name: str, differences: Callable[[type[Header], str], list[str]]
) -> None:
    assert differences(header, java_name) == []
