from itertools import permutations

import pytest

from cometmq.access.decision import Permission, decide
from cometmq.access.policies import Acl, PolicyEntry
from cometmq.access.users import User, UserStatus, UserType
from cometmq.wire.requests import Action, Resource

ANN = User("ann", "x")
PUB = Permission(Resource.TOPIC, "orders", (Action.PUB,))
HERE = "127.0.0.1"


def entry(resource: str, decision: str = "Allow", action: str = "Pub", *sources: str) -> PolicyEntry:
    return PolicyEntry.parse(resource, [action], sources, decision)


def allowed(*entries: PolicyEntry, default: tuple[PolicyEntry, ...] = ()) -> bool:
    return decide(ANN, Acl("ann", entries, default), PUB, HERE).is_allowed


def test_a_super_user_may_do_all_whatever_its_policies_say() -> None:
    root = User("root", "x", UserType.SUPER)
    assert decide(root, Acl("root", (entry("*", "Deny", "All"),)), PUB, HERE).is_allowed


@pytest.mark.parametrize("kind", UserType)
def test_a_disabled_user_may_do_nothing(kind: UserType) -> None:
    user = User("ann", "x", kind, UserStatus.DISABLE)
    verdict = decide(user, Acl("ann", (entry("*", action="All"),)), PUB, HERE)
    assert verdict.refusal == "User:ann is disabled."


def test_without_a_policy_for_it_a_request_is_refused() -> None:
    text = "User:ann has no permission to access Topic:orders from 127.0.0.1, no matched policies."
    assert decide(ANN, None, PUB, HERE).refusal == text
    assert decide(ANN, Acl("ann", (entry("Topic:other"),)), PUB, HERE).refusal == text


def test_an_entry_that_denies_says_so() -> None:
    verdict = decide(ANN, Acl("ann", (entry("Topic:o*", "Deny"),)), PUB, HERE)
    assert verdict.refusal == (
        "User:ann has no permission to access Topic:orders from 127.0.0.1, the decision is deny."
    )
    assert verdict.entry == entry("Topic:o*", "Deny")


def test_the_narrowest_entry_decides_in_whatever_order_they_are() -> None:
    narrowing = ["*", "Topic:*", "Topic:o*", "Topic:ord*", "Topic:orders"]
    for narrower in range(1, len(narrowing)):
        for decision, other in (("Allow", "Deny"), ("Deny", "Allow")):
            entries = [entry(text, other) for text in narrowing[:narrower]]
            entries.append(entry(narrowing[narrower], decision))
            for order in permutations(entries):
                assert allowed(*order) == (decision == "Allow")


def test_of_equal_entries_the_one_that_denies_decides() -> None:
    assert not allowed(entry("Topic:orders"), entry("Topic:orders", "Deny"))


def test_an_entry_for_other_actions_or_sources_decides_nothing() -> None:
    assert allowed(entry("Topic:orders", "Deny", "Sub"), entry("Topic:o*"))
    assert allowed(entry("Topic:orders", "Deny", "Pub", "10.0.0.0/8"), entry("Topic:o*"))


def test_any_of_the_wanted_actions_is_enough() -> None:
    need = Permission(Resource.TOPIC, "orders", (Action.SUB, Action.GET))
    assert decide(ANN, Acl("ann", (entry("Topic:orders", action="Get"),)), need, HERE).is_allowed


def test_the_default_policy_decides_where_the_custom_one_has_no_entry() -> None:
    assert allowed(entry("Topic:other", "Deny"), default=(entry("Topic:*"),))
    assert not allowed(entry("*", "Deny"), default=(entry("Topic:orders"),))
