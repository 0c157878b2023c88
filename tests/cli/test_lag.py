import asyncio

import pytest
from tests.cli.conftest import Run
from tests.consuming import hanging
from tests.fuzzed_broker import NAME, fuzzed_broker
from tests.kit.brokers import register_a_broker_that_is_gone
from tests.live import BROKER, Live

from cometmq.admin.offsets import GroupLag, QueueProgress
from cometmq.admin.topics import TopicAdmin
from cometmq.cli.lag import View, _all_lags, _behind, _group_rows, _rates
from cometmq.client import PullConsumer, SimpleConsumer, Start
from cometmq.message import MessageQueue


@pytest.mark.usefixtures("orders")
def test_lag_is_told_by_group_and_by_queue(cometmq: Run) -> None:
    assert cometmq("lag", "--json").values == [
        [
            {
                "group": "g",
                "members": 0,
                "lag": 2,
                "in_flight": 0,
                "ready": 2,
                "ahead": 0,
                "deliveries_per_s": 0.0,
                "has_committed": True,
                "is_broadcasting": False,
            }
        ]
    ]
    (found,) = cometmq("lag", "g", "--json").values
    (queue,) = found.pop("queues")
    assert found == {"group": "g", "lag": 2, "in_flight": 0, "ready": 2, "ahead": 0, "has_committed": True}
    assert (queue["committed"], queue["max_offset"], queue["lag"], queue["member"]) == (1, 3, 2, None)
    out = cometmq("lag", "g", "--topic", "orders").out.splitlines()
    assert out[2].split()[:7] == ["orders", BROKER, "0", "3", "1", "2", "0"]
    assert out[2].split()[7] == "2", "ready"
    assert out[-1] == "group g: 2 messages behind"
    assert cometmq("lag", "gg").failed(3, "'gg'", "nearest 'g'")


@pytest.mark.usefixtures("orders")
def test_a_topic_that_is_not_there_has_no_lag_of_0(cometmq: Run) -> None:
    for command in (("lag",), ("lag", "--watch"), ("offset", "show")):
        assert cometmq(*command, "g", "--topic", "order").failed(3, "'order'", "nearest 'orders'")
    assert cometmq("lag", "--topic", "orders").failed(2, "--topic", "GROUP")


@pytest.mark.usefixtures("orders")
def test_it_is_watched_look_by_look(cometmq: Run) -> None:
    watch = ("lag", "g", "--watch", "--interval", "1ms", "--count", "2")
    first, second = cometmq(*watch, "--json").values
    assert "handled_per_s" not in first["queues"][0] and second["queues"][0]["handled_per_s"] == 0.0
    assert cometmq(*watch).out.count("group g: 2 messages behind") == 2
    assert len(cometmq("lag", "--watch", "--interval", "1ms", "--count", "3", "--json").values) == 3


def test_messages_that_pops_hold_are_lag_and_in_flight(cometmq: Run, orders: Live) -> None:
    async def pop() -> None:
        async with SimpleConsumer(orders.name_server, "popping", start=Start.FIRST) as consumer:
            await consumer.subscribe("orders")
            held = await consumer.receive(max_count=2, invisible_ms=60_000)
            await consumer.ack(held[0])

    cometmq("group", "create", "popping")
    asyncio.run(pop())
    (found,) = [one for one in cometmq("lag", "--json").values[0] if one["group"] == "popping"]
    assert (found["lag"], found["in_flight"], found["ready"]) == (2, 1, 1)
    (of_group,) = cometmq("lag", "popping", "--topic", "orders", "--json").values
    assert (of_group["lag"], of_group["in_flight"], of_group["ready"]) == (2, 1, 1)


def test_the_rate_is_what_was_committed_between_two_looks() -> None:
    before = View("g", [QueueProgress("T", BROKER, 0, 9, 1, 1, 0)], {}, 10.0)
    after = View(
        "g", [QueueProgress("T", BROKER, 0, 9, 5, 5, 0), QueueProgress("U", BROKER, 0, 9, 5, 5, 0)], {}, 12.0
    )
    assert _rates(after, before) == {("T", BROKER, 0): 2.0, ("U", BROKER, 0): 0.0}
    assert after.total == 8


def test_a_queue_is_behind_by_the_time_of_what_was_handled_last() -> None:
    assert _behind(QueueProgress("T", BROKER, 0, 5, 5, 5, 1)) == "-"
    assert _behind(QueueProgress("T", BROKER, 0, 5, 0, 0, 0)) == "all"
    assert _behind(QueueProgress("T", BROKER, 0, 5, 1, 1, 1)).split()[0].endswith("d")


def test_a_commit_ahead_of_the_end_is_shown_and_hides_nothing(cometmq: Run, orders: Live) -> None:
    cometmq("topic", "create", "refunds", "--queues", "1")

    async def main() -> None:
        async with PullConsumer(orders.name_server, "g") as consumer:
            await consumer.commit(MessageQueue("refunds", BROKER, 0), 100)

    asyncio.run(main())
    (line,) = cometmq("group", "list", "--json").values[0]
    assert (line["lag"], line["ahead"]) == (2, 100)
    (found,) = cometmq("lag", "g", "--json").values
    assert [(queue["lag"], queue["ahead"]) for queue in found["queues"]] == [(2, 0), (0, 100)]
    out = cometmq("lag", "g").out
    assert "ahead by 100 " in out
    assert out.splitlines()[-1].startswith("group g: 2 messages behind, ahead by 100 elsewhere")
    assert "ahead by 100" in cometmq("offset", "show", "g").out


def test_the_rate_of_a_group_is_rounded_once_and_in_the_live_view() -> None:
    assert _group_rows([GroupLag("g", 1, 2, 3, 4, 5, 2 / 3)]) == [("g", 1, 2, 3, 4, 5, "0.7", "yes")]


async def test_a_group_that_hangs_before_its_first_commit_lags_and_says_so(
    cometmq: Run, orders: Live
) -> None:
    async def out(*command: str) -> str:
        return (await asyncio.to_thread(cometmq, *command)).out

    async with hanging(orders.name_server, "stuck", "orders"):
        lines = (await asyncio.to_thread(cometmq, "lag", "--json")).values[0]
        (line,) = [one for one in lines if one["group"] == "stuck"]
        assert (line["lag"], line["in_flight"], line["ready"], line["has_committed"]) == (3, 3, 0, False)
        (found,) = (await asyncio.to_thread(cometmq, "lag", "stuck", "--topic", "orders", "--json")).values
        (queue,) = found["queues"]
        assert (found["lag"], found["in_flight"], found["has_committed"]) == (3, 3, False)
        assert (queue["committed"], queue["begin"], queue["has_committed"]) == (0, 0, False)
        lines = (await out("lag", "stuck", "--topic", "orders")).splitlines()
        assert lines[2].split()[:8] == ["orders", BROKER, "0", "3", "-", "3", "3", "0"]
        assert lines[-2:] == [
            "nothing committed yet in 1 queue: lag counts from where the group begins",
            "group stuck: 3 messages behind",
        ]
        assert "nothing yet" in await out("lag")
        shown = await out("offset", "show", "stuck", "--topic", "orders")
        assert shown.splitlines()[2].split()[4:6] == ["-", "3"] and "nothing committed yet" in shown


@pytest.mark.usefixtures("live")
def test_no_lag_is_made_up_for_a_group_of_which_nothing_is_known(cometmq: Run) -> None:
    cometmq("group", "create", "idle")
    out = cometmq("lag", "idle").out
    assert "nothing committed yet: where the group begins is not known, or it broadcasts" in out
    cometmq("topic", "create", "orders", "--queues", "1")
    cometmq("send", "orders", text="0\n")
    lines = cometmq("lag", "idle", "--topic", "orders").out.splitlines()
    assert lines[2].split()[:8] == ["orders", BROKER, "0", "1", "-", "0", "0", "0"]
    assert lines[-2].startswith("nothing committed yet in 1 queue: it is not known where the group begins")


def test_a_group_that_broadcasts_commits_nothing_by_design() -> None:
    (row,) = _group_rows([GroupLag("g", 1, 0, 0, 0, 0, 0.0, has_committed=False, is_broadcasting=True)])
    assert row[-1] == "broadcasts"


@pytest.mark.usefixtures("orders")
def test_lags_on_the_others_are_shown_when_a_broker_is_gone(cometmq: Run, live: Live) -> None:
    async def register() -> None:
        async with TopicAdmin(live.name_server) as admin:
            await register_a_broker_that_is_gone(admin)
            ran, shown = await asyncio.to_thread(
                lambda: (cometmq("lag", "--json"), cometmq("top", "--once", "--json"))
            )
            assert ran.failed(1, "broker-gone at 127.0.0.1:")
            assert [(line["group"], line["lag"]) for line in ran.values[0]] == [("g", 2)]
            (found,) = shown.values
            assert [(line["group"], line["lag"]) for line in found["groups"]] == [("g", 2)]

    asyncio.run(register())


@pytest.mark.usefixtures("orders")
def test_lags_on_the_others_are_shown_when_a_broker_answers_what_cannot_be_read(live: Live) -> None:
    async def run() -> None:
        async with TopicAdmin(live.name_server) as admin, fuzzed_broker(admin):
            lines, (trouble,) = await _all_lags(admin)
            assert [(line.group, line.lag) for line in lines] == [("g", 2)]
            assert trouble.broker_name == NAME and "answers what cannot be read" in trouble.text

    asyncio.run(run())
