import pytest
from rich.console import Console
from tests.cli.conftest import Run
from tests.live import BROKER, Live

from cometmq.admin.cluster import BrokerLine
from cometmq.admin.offsets import GroupLag
from cometmq.cli.health.top import Round, TopicEnds, _screen

LINE = BrokerLine("c", BROKER, 0, "127.0.0.1:10911", in_tps=1500.0, deliveries_per_s=20.0, disk_ratio=0.44)


def drawn(now: Round, before: Round, height: int = 40) -> list[str]:
    """Return the lines of a screen of this height."""
    console = Console(width=110, height=height, record=True, force_terminal=False)
    with console.capture() as captured:
        console.print(_screen(console, "127.0.0.1:9876", now, before))
    return captured.get().splitlines()


def test_what_passes_and_what_waits_is_shown_of_a_real_broker(cometmq: Run, orders: Live) -> None:
    once = ("top", "--once", "--interval", "1ms")
    (found,) = cometmq(*once, "--json").values
    assert found["topics"] == [{"topic": "orders", "in_per_s": 0.0, "messages": 3}]
    (group,) = found["groups"]
    assert (group["group"], group["lag"], group["lag_growth_per_s"]) == ("g", 2, 0.0)
    assert found["brokers"][0]["address"] == orders.broker
    lines = cometmq(*once).out.splitlines()
    assert f"{orders.name_server}  " in lines[0] and lines[0].endswith("lag 2")
    assert any(line.split()[:3] == [BROKER, "0", orders.broker] for line in lines)
    assert ["orders", "0.0", "3"] in [line.split() for line in lines]
    assert ["g", "0", "2", "+0.0", "0", "2", "0.0"] in [line.split() for line in lines]


def test_rounds_follow_each_other(cometmq: Run, live: Live) -> None:
    assert live.broker
    assert len(cometmq("top", "--count", "2", "--interval", "1ms", "--json").values) == 2


def test_a_name_server_that_does_not_answer_ends_it(cometmq: Run) -> None:
    assert cometmq("top", "--once", "-n", "127.0.0.1:1").failed(1, "127.0.0.1:1")


def test_rates_are_those_between_two_rounds() -> None:
    before = Round(10.0, [LINE], {"a": TopicEnds(100, 50)}, 2, [GroupLag("g", 1, 100, 0, 0, 0, 5.0)])
    now = Round(
        *(12.0, [LINE], {"a": TopicEnds(300, 200), "b": TopicEnds(7, 7)}, 2),
        [GroupLag("g", 1, 90, 3, 87, 0, 5.0), GroupLag("new", 0, 4, 0, 4, 0, 0.0)],
    )
    rows = [line.split() for line in drawn(now, before)]
    assert [BROKER, "0", "127.0.0.1:10911", "1,500.0", "20.0", "44%", "ok"] in rows
    assert ["a", "100.0", "200"] in rows and ["b", "0.0", "7"] in rows
    assert ["g", "1", "90", "-5.0", "3", "87", "5.0"] in rows
    assert ["new", "0", "4", "+0.0", "0", "4", "0.0"] in rows


@pytest.mark.parametrize(("height", "shown"), [(25, 7), (24, 6), (1, 3)])
def test_a_screen_shows_as_many_rows_as_fit_and_says_of_how_many(height: int, shown: int) -> None:
    topics = {f"t{number:03}": TopicEnds(number, number) for number in range(200)}
    groups = [GroupLag(f"g{number:03}", 1, number, 0, 0, 0, 0.0) for number in range(50)]
    now = Round(1.0, [LINE], topics, 1_000, groups)
    lines = drawn(now, now, height)
    assert any(line.startswith(f"topic ({shown} of 1000)") for line in lines)
    assert any(line.startswith(f"group ({shown} of 50)") for line in lines)
    assert lines[-1].startswith(f"g{50 - shown:03}"), "the largest lag first"
    assert height < 10 or len(lines) <= height


def test_a_broker_that_does_not_answer_says_why() -> None:
    silent = BrokerLine("c", BROKER, 0, "127.0.0.1:10911", trouble="no connection")
    now = Round(1.0, [silent], {}, 0, [])
    assert any(line.split()[-3:] == ["-", "no", "connection"] for line in drawn(now, now))
