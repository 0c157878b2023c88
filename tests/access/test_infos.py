import pytest

from cometmq.access.infos import acl_of, info_of_acl, info_of_user, user_of
from cometmq.access.policies import Acl, Decision, Pattern, PolicyEntry
from cometmq.access.users import User, UserStatus, UserType
from cometmq.errors import AccessError
from cometmq.wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo
from cometmq.wire.requests import Action, Resource

ENTRY = PolicyEntryInfo("Topic:T*", ["Pub", "Sub"], ["127.0.0.1", "10.0.0.0/8"], "Allow")


def test_a_user_goes_out_as_it_comes_in() -> None:
    info = UserInfo("u1", "secret", "Super", "disable")
    assert user_of(info) == User("u1", "secret", UserType.SUPER, UserStatus.DISABLE)
    assert info_of_user(user_of(info)) == info


def test_a_type_or_status_that_is_missing_or_unknown_is_that_of_most_users() -> None:
    for kind, status in ((None, None), ("", ""), ("God", "asleep")):
        assert user_of(UserInfo("u1", "p", kind, status)) == User("u1", "p")
    assert user_of(UserInfo("u1", "p", "SUPER", "Disable")).is_super


def test_an_acl_goes_out_as_it_comes_in() -> None:
    info = AclInfo(
        "User:u1",
        [
            PolicyInfo("Custom", [ENTRY]),
            PolicyInfo("Default", [PolicyEntryInfo("*", ["All"], None, "Deny")]),
        ],
    )
    acl = acl_of(info)
    assert (acl.user, len(acl.custom)) == ("u1", 1)
    assert acl.default == (PolicyEntry(Pattern(None, "", is_prefix=True), (Action.ALL,), (), Decision.DENY),)
    assert info_of_acl(acl) == info


def test_policies_of_no_name_are_custom_and_the_case_of_words_does_not_matter() -> None:
    info = AclInfo("User:u1", [PolicyInfo(None, [PolicyEntryInfo("group:g", ["sub", "PUB"], None, "deny")])])
    assert info_of_acl(acl_of(info)) == AclInfo(
        "User:u1", [PolicyInfo("Custom", [PolicyEntryInfo("Group:g", ["Sub", "Pub"], None, "Deny")])]
    )


def test_of_a_user_with_a_colon_all_behind_the_first_one_is_the_name() -> None:
    assert acl_of(AclInfo("User:a:b", [PolicyInfo("Custom", [ENTRY])])).user == "a:b"


@pytest.mark.parametrize(
    ("info", "text"),
    [
        (AclInfo("Role:r", [PolicyInfo("Custom", [ENTRY])]), "The subject type is null."),
        (AclInfo("u1", [PolicyInfo("Custom", [ENTRY])]), "The subject type is null."),
        (AclInfo(None, [PolicyInfo("Custom", [ENTRY])]), "The subject type is null."),
        (AclInfo("User:u1", [PolicyInfo("Custom", [])]), "The policy entries is empty."),
        (AclInfo("User:u1", [PolicyInfo("Custom", [PolicyEntryInfo()])]), "The resource is null."),
    ],
)
def test_what_cannot_be_used_is_refused_in_rocketmqs_words(info: AclInfo, text: str) -> None:
    with pytest.raises(AccessError) as refused:
        acl_of(info)
    assert str(refused.value) == text


def test_an_empty_acl_has_no_policies() -> None:
    topic = Pattern(Resource.TOPIC, "T", is_prefix=False)
    entry = PolicyEntry(topic, (Action.GET,), (), Decision.ALLOW)
    assert info_of_acl(Acl("u1", default=(entry,))).policies == [
        PolicyInfo("Default", [PolicyEntryInfo("Topic:T", ["Get"], None, "Allow")])
    ]
