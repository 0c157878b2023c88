import asyncio

import pytest
from tests.cli.conftest import Run
from tests.consuming import hanging
from tests.live import BROKER, Live

from cometmq.client import Consumer


@pytest.mark.usefixtures("live")
def test_a_group_is_made_listed_shown_and_removed(cometmq: Run) -> None:
    made = cometmq("group", "create", "billing", "--retries", "3")
    assert made == (0, f"group billing: 3 retries, on {BROKER}\n", "")
    (lines,) = cometmq("group", "list", "--json").values
    nothing = {"lag": 0, "in_flight": 0, "ready": 0, "ahead": 0, "deliveries_per_s": 0.0}
    nothing |= {"has_committed": False, "is_broadcasting": False}
    assert lines == [{"group": "billing", "members": 0} | nothing]
    (shown,) = cometmq("group", "show", "billing", "--json").values
    assert (shown["config"]["retryMaxTimes"], shown["members"]) == (3, [])
    assert not shown["config"]["consumeMessageOrderly"]
    assert cometmq("group", "show", "billing").out == (
        f"group billing: consumes, 3 retries, on {BROKER}\n"
        "nothing committed yet: where the group begins is not known, or it broadcasts and has no lag\n"
        "no members now\n"
    )
    assert cometmq("group", "show", "biling").failed(3, "nearest 'billing'", "cometmq group create biling")
    (gone,) = cometmq("group", "delete", "billing", "--json").values
    assert gone == {"group": "billing", "deleted_from": [BROKER]}
    assert cometmq("group", "delete", "billing").failed(3, "no group 'billing'")
    cometmq("group", "create", "billing", "--ordered")
    (shown,) = cometmq("group", "show", "billing", "--json").values
    assert shown["config"]["consumeMessageOrderly"]
    assert cometmq("group", "create", "a b").failed(2, "a b")


def test_members_are_shown_and_tell_how_they_are_doing(cometmq: Run, live: Live) -> None:
    cometmq("topic", "create", "orders", "--queues", "1")

    async def main() -> None:
        consumer = Consumer(live.name_server, "billing")
        consumer.subscribe("orders", print, "paid")
        async with consumer:
            (shown,) = (await asyncio.to_thread(cometmq, "group", "show", "billing", "--json")).values
            (member,) = shown["members"]
            assert (member["client_id"], member["language"]) == (consumer.client_id, "PYTHON")
            assert {"topic": "orders", "expression": "paid", "expression_type": "TAG"} in shown[
                "subscriptions"
            ]
            out = (await asyncio.to_thread(cometmq, "group", "show", "billing")).out
            assert "1 members, CONSUME_PASSIVELY, CLUSTERING" in out and consumer.client_id in out
            asked = ("group", "member", "billing", consumer.client_id)
            (info,) = (await asyncio.to_thread(cometmq, *asked, "--json")).values
            assert "orders" in {queue["topic"] for queue in info["queues"]}
            assert "PROP_CONSUME_TYPE: CONSUME_PASSIVELY" in (await asyncio.to_thread(cometmq, *asked)).out

    asyncio.run(main())
    assert cometmq("group", "member", "billing", "x").failed(3, "no members now")


async def test_the_lag_of_a_group_that_has_committed_nothing_is_shown(cometmq: Run, live: Live) -> None:
    await asyncio.to_thread(cometmq, "topic", "create", "orders", "--queues", "1")
    await asyncio.to_thread(cometmq, "send", "orders", text="0\n1\n")
    async with hanging(live.name_server, "stuck", "orders"):
        (shown,) = (await asyncio.to_thread(cometmq, "group", "show", "stuck", "--json")).values
        assert (shown["lag"], shown["in_flight"], shown["ready"], shown["has_committed"]) == (2, 2, 0, False)
        out = (await asyncio.to_thread(cometmq, "group", "show", "stuck")).out
        assert "nothing committed yet in " in out and "2 messages behind: 2 in flight, 0 ready" in out


async def test_members_that_subscribe_differently_are_warned_of(cometmq: Run, live: Live) -> None:
    await asyncio.to_thread(cometmq, "topic", "create", "orders", "--queues", "1")
    paid, open_ = (Consumer(live.name_server, "billing", instance=name) for name in ("one", "two"))
    paid.subscribe("orders", print, "paid")
    open_.subscribe("orders", print, "open")
    async with paid, open_:
        (shown,) = (await asyncio.to_thread(cometmq, "group", "show", "billing", "--json")).values
        wants = {"open": [open_.client_id], "paid": [paid.client_id]}
        assert shown["differences"] == [{"topic": "orders", "wants": wants}]
        out = (await asyncio.to_thread(cometmq, "group", "show", "billing")).out
        assert "warning: members subscribe differently" in out
