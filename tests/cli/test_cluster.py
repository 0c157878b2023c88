import pytest
from tests.cli.conftest import Run
from tests.live import BROKER, Live

from cometmq.cli.cluster import _short


def test_the_brokers_are_listed_with_what_passes_through_them(cometmq: Run, live: Live) -> None:
    cometmq("topic", "create", "orders")
    cometmq("send", "orders", "hello")
    ((line,),) = cometmq("cluster", "--json").values
    assert (line["broker_name"], line["broker_id"], line["address"]) == (BROKER, 0, live.broker)
    assert (line["in_today"], line["out_today"]) == (1, 0)
    head, _, row = cometmq("cluster").out.splitlines()
    assert head.split()[:2] == ["cluster", "broker"] and row.split()[:4] == [
        "DefaultCluster",
        BROKER,
        "0",
        live.broker,
    ]


@pytest.mark.parametrize(
    ("up", "shown"),
    [
        ("0 days, 2 hours, 0 minutes, 5 seconds", "2 hours, 5 seconds"),
        ("10 days, 0 hours, 0 minutes, 0 seconds", "10 days"),
        ("0 days, 0 hours, 0 minutes, 0 seconds", "just started"),
    ],
)
def test_of_the_time_that_a_broker_has_run_only_what_counts_is_shown(up: str, shown: str) -> None:
    assert _short(up) == shown
