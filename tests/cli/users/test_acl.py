import pytest
from tests.cli.conftest import Run
from tests.live import BROKER

NO_PERMISSION = "User:billing has no permission to access Topic:orders-1"
DECIDES = "Custom policy: Allow Pub on Topic:orders* from 10.0.0.0/8"


@pytest.fixture(autouse=True)
def billing(cometmq: Run, secured: object) -> None:
    """A user without an acl."""
    assert secured is not None
    assert cometmq("user", "add", "billing", "--password-stdin", text="hidden").code == 0


def test_an_entry_is_added_listed_shown_and_removed(cometmq: Run) -> None:
    said = cometmq("acl", "show", "billing")
    assert said == (0, "user billing has no acl: it may do nothing, unless it is a super user\n", "")
    added = cometmq("acl", "add", "billing", "Topic:orders*", "pub", "Sub", "--from", "10.0.0.0/8")
    assert added.out == f"user billing: Allow Pub, Sub on Topic:orders* from 10.0.0.0/8, on {BROKER}\n"
    cometmq("acl", "add", "billing", "*", "All", "--deny", "--default")
    entry = {
        "user": "billing",
        "policy": "Custom",
        "resource": "Topic:orders*",
        "actions": ["Pub", "Sub"],
        "sources": ["10.0.0.0/8"],
        "decision": "Allow",
        "brokers": [BROKER],
    }
    default = entry | {
        "policy": "Default", "resource": "*", "actions": ["All"], "sources": [], "decision": "Deny"
    }  # fmt: skip
    assert cometmq("acl", "show", "billing", "--json").values == [[entry, default]]
    assert cometmq("acl", "list", "--user", "bill", "--resource", "orders", "--json").values == [[entry]]
    out = cometmq("acl", "list").out
    assert "Topic:orders*" in out and "10.0.0.0/8" in out and "anywhere" in out
    assert cometmq("acl", "remove", "billing", "*", "--default").out == (
        f"user billing: * removed from {BROKER}\n"
    )
    (removed,) = cometmq("acl", "remove", "billing", "--json").values
    assert removed == {"user": "billing", "resource": None, "removed_from": [BROKER]}
    assert cometmq("acl", "show", "billing", "--json").values == [[]]
    assert cometmq("acl", "remove", "billing").failed(1, "The acl is not exist.")


def test_a_check_says_what_decides_and_ends_with_its_outcome(cometmq: Run) -> None:
    asked = ("acl", "check", "billing", "pub", "Topic:orders-1", "--from", "10.1.2.3")
    refused = cometmq(*asked)
    assert refused == (
        1,
        f"{NO_PERMISSION} from 10.1.2.3, no matched policies. [no entry decides; on {BROKER}]\n",
        "",
    )
    cometmq("acl", "add", "billing", "Topic:orders*", "Pub", "--from", "10.0.0.0/8")
    assert cometmq(*asked) == (
        0,
        f"billing may Pub Topic:orders-1 from 10.1.2.3. [{DECIDES}; on {BROKER}]\n",
        "",
    )
    (verdicts,) = cometmq(*asked, "--json").values
    entry = {
        "resource": "Topic:orders*", "actions": ["Pub"], "sourceIps": ["10.0.0.0/8"], "decision": "Allow"
    }  # fmt: skip
    assert verdicts == [
        {"allowed": True, "refusal": None, "policy": "Custom", "entry": entry, "brokers": [BROKER]}
    ]
    assert cometmq("acl", "check", "billing", "Pub", "Topic:orders-1").code == 1, "from another address"
    assert cometmq("acl", "check", "admin", "Delete", "Topic:any").out == (
        f"admin may Delete Topic:any from 127.0.0.1. [it is a super user; on {BROKER}]\n"
    )


def test_a_wrong_wish_is_refused_in_one_line(cometmq: Run) -> None:
    assert cometmq("acl", "add", "billing", "orders", "Pub").failed(2, "'orders'", "Topic:orders-*")
    assert cometmq("acl", "add", "billing", "Topic:t", "Fly").failed(2, "Fly")
    assert cometmq("acl", "add", "billing", "Topic:t").failed(2, "ACTIONS")
    assert cometmq("acl", "add", "billing", "Topic:t", "Pub", "--from", "x").failed(2, "'x'", "192.0.2.0/24")
    assert cometmq("acl", "add", "billing", "Topic:*t", "Pub", "--deny").failed(2, "*t", "Topic:orders-*")
    assert cometmq("acl", "add", "billing", "Topic:t", "Pub", "--from", "10.0.0.5/8").failed(2, "10.0.0.0/8")
    assert cometmq("acl", "check", "billing", "Pub", "Topic:a*b").failed(2, "matches nothing")
    assert cometmq("acl", "add", "nobody", "Topic:t", "Pub").failed(1, "User:nobody is not exist")
    assert cometmq("acl", "check", "billing", "Pub", "Topic:t*").failed(2, "a single one")
    assert cometmq("acl", "check", "billing", "Pub", "Topic:t", "--from", "x").failed(2, "192.0.2.7")
    assert cometmq("acl", "remove", "billing", "orders").failed(2, "'orders'")
