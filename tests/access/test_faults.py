"""Entries that would do nothing, or something else than their text says."""

import pytest

from cometmq.access.faults import check_acl, check_entry, check_user, fault_of, fault_of_pattern
from cometmq.access.policies import Pattern, PolicyEntry
from cometmq.errors import AccessError
from cometmq.wire.bodies.access import AclInfo, PolicyEntryInfo, PolicyInfo, UserInfo

ENTRY = PolicyEntryInfo("Topic:orders-*", ["Pub"], ["10.0.0.0/8", "192.0.2.7", "2001:db8::/32"], "Allow")


def entry(
    resource: str = "Topic:t", *actions: str, source: str | None = None, decision: str = "Deny"
) -> PolicyEntryInfo:
    return PolicyEntryInfo(resource, list(actions or ("All",)), [source] if source else None, decision)


@pytest.mark.parametrize(
    ("resource", "remedy"),
    [
        ("Topic:*secret", "a * can only be the last character, such as Topic:orders-*"),
        ("Topic:a*b", "a * can only be the last character"),
        ("Topic:a*b*", "a * can only be the last character"),
        ("Group:**", "such as Group:orders-*"),
        ("Cluster:*c", "a * can only be the last character"),
        ("Topic:orders.eu", "use only the characters a-z A-Z 0-9 _ - % |"),
        ("Topic: orders", "use only the characters"),
        ("Group:größe*", "use only the characters"),
        ("Topic:" + "x" * 128, "shorten it to at most 127"),
        ("Group:" + "x" * 250 + "*", "shorten it to at most 248"),
        ("Topic:", "name one, or all: Topic:*"),
        ("Group:%RETRY%", "name one, or all: Group:*"),
        ("Cluster:", "name one, or all: Cluster:*"),
        ("Topic:%RETRY%billing", "use Group:NAME"),
        ("Topic:%RETRY%*", "use Group:NAME"),
        ("Namespace:eu", "such as Topic:NAMESPACE%*"),
        ("Namespace:*", "such as Topic:NAMESPACE%*"),
    ],
)
def test_a_resource_that_nothing_can_be_is_refused_with_the_remedy(resource: str, remedy: str) -> None:
    with pytest.raises(AccessError) as refused:
        check_entry(entry(resource))
    assert remedy in str(refused.value)
    assert "matches nothing" in str(refused.value) and len(str(refused.value)) <= 500


@pytest.mark.parametrize(
    "resource",
    [
        *("*", "Topic:*", "Topic:orders", "Topic:orders-*", "Topic:%DLQ%billing", "Topic:eu%orders"),
        *("Group:*", "Group:%RETRY%billing", "Group:%RETRY%*", "Cluster:*", "Cluster:c.example.com"),
    ],
)
def test_a_resource_that_can_be_is_kept(resource: str) -> None:
    check_entry(entry(resource))
    assert fault_of_pattern(Pattern.parse(resource)) is None


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        ("10.0.0.5/8", "use 10.0.0.0/8, or 10.0.0.5 for the address"),
        ("2001:db8::1/32", "use 2001:db8::/32, or 2001:db8::1"),
        ("0.0.0.0", "name no source for all senders, or 0.0.0.0/0 and ::/0"),
        ("255.255.255.255", "nobody's"),
        ("239.1.0.0/16", "nobody's"),
        ("ff02::1", "nobody's"),
        ("::", "nobody's"),
        ("::ffff:10.0.0.0/104", "use 10.0.0.0/8"),
        ("::ffff:10.0.0.7", "use 10.0.0.7/32"),
    ],
)
def test_a_source_that_nobody_sends_from_or_that_is_not_what_it_says_is_refused(
    source: str, remedy: str
) -> None:
    with pytest.raises(AccessError) as refused:
        check_entry(entry(source=source))
    assert remedy in str(refused.value)


@pytest.mark.parametrize(
    "source", ["0.0.0.0/0", "::/0", "10.0.0.0/8", " 10.0.0.5 ", "127.0.0.1", "::1", "fe80::/10"]
)
def test_a_source_that_somebody_sends_from_is_kept(source: str) -> None:
    check_entry(entry(source=source))


def test_an_unknown_action_is_refused_and_not_left_out() -> None:
    with pytest.raises(AccessError, match="The action 'Sbu' is unknown: use All, Pub, Sub, Create"):
        check_entry(entry("Topic:t", "Pub", "Sbu"))


@pytest.mark.parametrize(
    ("resource", "actions", "remedy"),
    [
        ("Group:g", ("Pub",), "use All, or of Sub, Create, Update, Delete, Get"),
        ("Cluster:c", ("Pub", "Sub"), "use All, or of Update, Get"),
        ("*", ("List",), "use All, or of Pub, Sub, Create, Update, Delete, Get"),
    ],
)
def test_an_entry_that_forbids_what_no_request_does_is_refused(
    resource: str, actions: tuple[str, ...], remedy: str
) -> None:
    with pytest.raises(AccessError) as refused:
        check_entry(entry(resource, *actions))
    assert "forbids nothing" in str(refused.value) and remedy in str(refused.value)
    check_entry(entry(resource, *actions, "Get"))
    check_entry(entry(resource, *actions, decision="Allow"))


def test_a_policy_type_that_is_unknown_is_refused_and_one_that_is_missing_is_custom() -> None:
    acl = check_acl(AclInfo("User:u1", [PolicyInfo(None, [ENTRY]), PolicyInfo("default", [ENTRY])]))
    assert len(acl.custom) == len(acl.default) == 1
    with pytest.raises(AccessError, match="The policy type 'Defualt' is unknown: use Custom, Default"):
        check_acl(AclInfo("User:u1", [PolicyInfo("Defualt", [ENTRY])]))


def test_a_type_or_status_of_a_user_that_is_unknown_is_refused() -> None:
    check_user(UserInfo("u1", "secret"))
    check_user(UserInfo("u1", "secret", "super", "Disable"))
    with pytest.raises(AccessError, match="The user type 'God' is unknown: use Super, Normal"):
        check_user(UserInfo("u1", "secret", "God"))
    with pytest.raises(AccessError, match="The user status 'disabled' is unknown: use enable, disable"):
        check_user(UserInfo("u1", None, None, "disabled"))


def test_what_a_store_has_is_judged_like_what_is_sent() -> None:
    assert fault_of(PolicyEntry.parse("Topic:t", ["Pub"], ["10.0.0.0/8"], "Deny")) is None
    for resource, actions, source in (
        ("Topic:*secret", "All", None),
        ("Topic:t", "All", "224.0.0.1"),
        ("Group:g", "Pub", None),
    ):
        assert fault_of(PolicyEntry.parse(resource, [actions], [source] if source else None, "Deny"))
