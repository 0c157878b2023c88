import re
from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.access.policies import Acl, Decision, Pattern, PolicyEntry, PolicyType
from cometmq.errors import AccessError
from cometmq.wire.requests import Action, Resource

NAMES = st.text("abc_-", min_size=1, max_size=8)


@pytest.mark.parametrize(
    "text", ["*", "Topic:T", "Topic:T*", "Topic:*", "Group:g", "Cluster:c", "Namespace:n"]
)
def test_a_pattern_is_written_as_it_was_read(text: str) -> None:
    assert str(Pattern.parse(text)) == text


def test_a_kind_is_read_in_any_case_and_a_retry_topic_as_its_group() -> None:
    assert Pattern.parse("topic:T") == Pattern(Resource.TOPIC, "T", is_prefix=False)
    assert Pattern.parse("Group:%RETRY%g") == Pattern(Resource.GROUP, "g", is_prefix=False)


def test_a_pattern_is_never_wider_than_its_text() -> None:
    assert Pattern.parse("Topic:a*b*") == Pattern(Resource.TOPIC, "a*b", is_prefix=True)
    assert Pattern.parse("Topic:a*b") == Pattern(Resource.TOPIC, "a*b", is_prefix=False)
    assert (
        Pattern.parse("Group:%RETRY%")
        == Pattern.parse("Group:")
        == Pattern(Resource.GROUP, "", is_prefix=False)
    )


@pytest.mark.parametrize("text", [None, "", "T", "Queue:q", ":x"])
def test_what_names_no_resource_is_refused(text: str | None) -> None:
    with pytest.raises(AccessError, match=re.escape("The resource is null.")):
        Pattern.parse(text)


@given(NAMES, NAMES)
def test_patterns_match_names_as_their_texts_say(pattern: str, name: str) -> None:
    assert Pattern.parse(f"Topic:{pattern}").matches(Resource.TOPIC, name) == (pattern == name)
    assert Pattern.parse(f"Topic:{pattern}*").matches(Resource.TOPIC, name) == name.startswith(pattern)
    assert not Pattern.parse(f"Group:{pattern}*").matches(Resource.TOPIC, name)
    assert Pattern.parse("Topic:*").matches(Resource.TOPIC, name)
    assert Pattern.parse("*").matches(Resource.CLUSTER, name)


@pytest.mark.parametrize(
    ("resource", "actions", "sources", "decision", "text"),
    [
        ("T", ["Pub"], None, "Allow", "The resource is null."),
        ("Topic:T", [], None, "Allow", "The actions is empty."),
        ("Topic:T", ["Write"], None, "Allow", "The actions is empty."),
        ("Topic:T", ["Any"], None, "Allow", "The actions can not be Any."),
        ("Topic:T", ["Pub"], [""], "Allow", "The source ip is empty."),
        ("Topic:T", ["Pub"], ["10.0.0"], "Allow", "The source ip is invalid."),
        ("Topic:T", ["Pub"], None, "Maybe", "The decision is null or illegal."),
        ("Topic:T", ["Pub"], None, None, "The decision is null or illegal."),
    ],
)
def test_an_illegal_entry_is_refused_in_rocketmqs_words(
    resource: str, actions: list[str], sources: list[str] | None, decision: str | None, text: str
) -> None:
    with pytest.raises(AccessError, match=re.escape(text)):
        PolicyEntry.parse(resource, actions, sources, decision)


def test_an_entry_is_read_in_any_case_and_keeps_the_order_of_its_actions() -> None:
    entry = PolicyEntry.parse(
        "topic:T", ["sub", "PUB", "sub", "nonsense"], ["10.0.0.7", "10.1.0.0/16"], "deny"
    )
    assert entry.actions == (Action.SUB, Action.PUB)
    assert entry.source_texts == ["10.0.0.7", "10.1.0.0/16"]
    assert entry.decision is Decision.DENY


def test_an_entry_is_for_its_sources_alone() -> None:
    entry = PolicyEntry.parse("Topic:T", ["Pub"], ["10.1.0.0/16", "::1"], "Allow")
    for address, expected in (("10.1.2.3", True), ("10.2.0.1", False), ("::1", True), ("::2", False)):
        found = entry.is_for(Resource.TOPIC, "T", [Action.PUB], ip_address(address))
        assert found == expected, address


def test_an_entry_for_all_actions_is_for_each() -> None:
    entry = PolicyEntry.parse("Topic:T", ["All"], None, "Allow")
    assert all(entry.is_for(Resource.TOPIC, "T", [action], ip_address("::1")) for action in Action)


def test_a_merged_entry_takes_the_place_of_the_one_for_the_same_resource() -> None:
    old = [PolicyEntry.parse(f"Topic:{name}", ["Pub"], None, "Allow") for name in "ab"]
    new = PolicyEntry.parse("Topic:a", ["Sub"], None, "Deny")
    acl = Acl("ann").merged(PolicyType.CUSTOM, old).merged(PolicyType.CUSTOM, [new])
    assert acl.custom == (new, old[1])
    assert acl.default == ()
    assert acl.without(PolicyType.CUSTOM, new.resource).custom == (old[1],)
    assert acl.without(PolicyType.DEFAULT, new.resource) == acl
