from tests.cli.conftest import Run
from tests.live import BROKER, Live


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
