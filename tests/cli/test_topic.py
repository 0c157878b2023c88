import signal

import pytest
from tests.cli.conftest import Process, Run
from tests.live import BROKER, Live

from cometmq.net.address import free_port


def test_a_topic_is_made_listed_changed_and_removed(cometmq: Run, live: Live) -> None:
    made = cometmq("topic", "create", "orders", "--queues", "3")
    assert made == (0, f"topic orders: 3 queues, read-write, on {BROKER}\n", "")
    changed = cometmq("topic", "create", "orders", "--queues", "5", "--perm", "read-only", "--json")
    assert changed.values == [{"topic": "orders", "queues": 5, "perm": 4, "brokers": [BROKER]}]
    row = {"topic": "orders", "broker_name": BROKER, "read_queues": 5, "write_queues": 5, "perm": 4}
    assert row in cometmq("topic", "list", "--json").values[0]
    shown = [line.split() for line in cometmq("topic", "list").out.splitlines()]
    assert shown[0] == ["topic", "broker", "read", "queues", "write", "queues", "perm"]
    assert ["orders", BROKER, "5", "5", "read-only"] in shown
    assert ["TBW102", BROKER, "8", "8", "read-write,", "pattern"] in shown
    gone = cometmq("topic", "delete", "orders", "--json")
    assert gone.values == [{"topic": "orders", "deleted_from": [BROKER]}]
    assert cometmq("topic", "delete", "orders").failed(1, "'orders'", "no route", live.name_server)


@pytest.mark.usefixtures("live")
@pytest.mark.parametrize("name", ["a b", "..", "../x", "ü", "", "x" * 128])
def test_a_name_that_no_topic_can_have_is_refused_here(cometmq: Run, name: str) -> None:
    for command in ("create", "delete"):
        assert cometmq("topic", command, name).failed(2, "topic", name[:40])


@pytest.mark.usefixtures("live")
def test_what_the_broker_refuses_is_told_in_its_words(cometmq: Run) -> None:
    assert cometmq("topic", "create", "TBW102").failed(1, "TBW102", "system topic")
    assert cometmq("topic", "delete", "TBW102").failed(1, "TBW102", "system topic")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("create",), ("NAME", "topic create --help")),
        (("create", "t", "--queues", "0"), ("--queues", "65535")),
        (("create", "t", "--perm", "all"), ("--perm", "read-write", "read-only")),
        (("list", "extra"), ("extra", "topic list --help")),
        (("lits",), ("lits", "cometmq topic --help")),
        (("list", "--namesrv", "nonsense"), ("'nonsense'", "host:port")),
        (("list", "--namesrv", "127.0.0.1:99999"), ("99999", "65535")),
        (("list", "--namesrv", ";"), ("';'", "at least one host:port")),
    ],
)
def test_arguments_that_cannot_be_used_are_named_with_the_remedy(
    cometmq: Run, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert cometmq("topic", *arguments).failed(2, *words)


def test_a_name_server_that_is_away_is_named(cometmq: Run) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    for command in (("list",), ("create", "t"), ("delete", "t")):
        assert cometmq("topic", *command, "--namesrv", nobody).failed(1, nobody, "no name server answers")


def test_a_name_server_without_a_broker_says_so(cometmq: Run) -> None:
    with Process("namesrv", "--port", "0") as server:
        address = server.line().removeprefix("ready: name server ")
        assert cometmq("topic", "create", "t", "-n", address).failed(1, address, "knows no broker")
        assert cometmq("topic", "list", "-n", address, "--json").values == [[]]
        assert server.kill(signal.SIGTERM).code == 0
