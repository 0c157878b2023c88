import asyncio
import signal

import pytest
from tests.cli.conftest import Process, Run
from tests.live import BROKER, Live

from cometmq.admin.topics import TopicAdmin
from cometmq.net.address import free_port


def test_a_topic_is_made_listed_changed_and_removed(cometmq: Run, live: Live) -> None:
    made = cometmq("topic", "create", "orders", "--queues", "3")
    assert made == (0, f"topic orders: 3 queues, read-write, on {BROKER}\n", "")
    changed = cometmq("topic", "create", "orders", "--queues", "5", "--perm", "read-only", "--json")
    assert changed.values == [{"topic": "orders", "queues": 5, "perm": 4, "brokers": [BROKER]}]
    row = {"topic": "orders", "broker_name": BROKER, "read_queues": 5, "write_queues": 5, "perm": 4}
    assert row in cometmq("topic", "list", "--json").values[0]
    shown = [line.split() for line in cometmq("topic", "list", "--all").out.splitlines()]
    assert shown[0] == ["topic", "broker", "read", "queues", "write", "queues", "perm"]
    assert ["orders", BROKER, "5", "5", "read-only"] in shown
    assert ["TBW102", BROKER, "8", "8", "read-write,", "pattern"] in shown
    gone = cometmq("topic", "delete", "orders", "--json")
    assert gone.values == [{"topic": "orders", "deleted_from": [BROKER]}]
    assert cometmq("topic", "delete", "orders").failed(3, "'orders'", "no route", live.name_server)


@pytest.mark.usefixtures("live")
def test_a_topic_that_is_there_is_changed_in_what_is_given(cometmq: Run) -> None:
    cometmq("topic", "create", "orders", "--queues", "3")
    row = {"topic": "orders", "broker_name": BROKER, "read_queues": 4, "write_queues": 4, "perm": 6}
    assert cometmq("topic", "update", "orders", "--queues", "4", "--json").values == [[row]]
    shown = cometmq("topic", "update", "orders", "--perm", "read-only").out.splitlines()
    assert shown[2].split() == ["orders", BROKER, "4", "4", "read-only"]
    assert cometmq("topic", "update", "orders").failed(2, "--queues", "--perm")
    assert cometmq("topic", "update", "orders", "--queues", "2").failed(2, "4 queues", "topic shrink orders")
    assert cometmq("topic", "update", "order", "--queues", "9").failed(3, "nearest 'orders'")


@pytest.mark.usefixtures("live")
def test_a_topics_settings_are_shown_with_its_attributes(cometmq: Run) -> None:
    cometmq("topic", "create", "steps", "--queues", "2", "--type", "FIFO")
    (found,) = cometmq("topic", "show", "steps", "--json").values
    row = {"broker_name": BROKER, "read_queues": 2, "write_queues": 2, "perm": 6}
    assert found == {"topic": "steps", "brokers": [row | {"attributes": {"message.type": "FIFO"}}]}
    shown = cometmq("topic", "show", "steps").out.splitlines()[2]
    assert shown.split() == [BROKER, "2", "2", "read-write", "message.type=FIFO"]
    assert cometmq("topic", "show", "step").failed(3, "nearest 'steps'")


def test_a_topics_route_and_what_is_in_it_are_shown(cometmq: Run, live: Live) -> None:
    cometmq("topic", "create", "orders", "--queues", "2")
    cometmq("send", "orders", "x")
    (found,) = cometmq("topic", "route", "orders", "--json").values
    row = {"broker_name": BROKER, "broker_id": 0, "address": live.broker}
    assert found["brokers"] == [row | {"read_queues": 2, "write_queues": 2, "perm": 6}]
    assert cometmq("topic", "route", "orders").out.splitlines()[2].split()[:3] == [BROKER, "0", live.broker]
    (stats,) = cometmq("topic", "stats", "orders", "--json").values
    assert stats["messages"] == 1 and [queue["queue_id"] for queue in stats["queues"]] == [0, 1]
    rows = [line.split() for line in cometmq("topic", "stats", "orders").out.splitlines()[2:]]
    assert sorted(row[2:5] for row in rows) == [["0", "0", "0"], ["0", "1", "1"]]
    assert cometmq("topic", "stats", "order").failed(3, "nearest 'orders'", "cometmq topic create order")


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


def test_a_brokers_address_given_as_the_name_servers_is_said_to_be_one(cometmq: Run, live: Live) -> None:
    for command in (
        ("topic", "list"),
        ("topic", "route", "t"),
        ("topic", "shrink", "t", "--queues", "1"),
        ("cluster",),
        ("group", "list"),
        ("send", "t", "x"),
        ("consume", "t"),
        ("message", "find", "--topic", "t", "--key", "k"),
    ):
        ran = cometmq(*command, "--namesrv", live.broker)
        assert ran.failed(1, f"{live.broker} is a broker, not a name server")


NEEDING_A_BROKER = (
    ("topic", "create", "t"),
    ("topic", "delete", "t"),
    ("topic", "list"),
    ("topic", "list", "--all", "--json"),
    ("topic", "route", "t"),
    ("topic", "shrink", "t", "--queues", "1"),
    ("cluster",),
    ("cluster", "--json"),
    ("replica", "status"),
    ("group", "list"),
    ("lag",),
    ("top", "--once"),
    ("dlq", "list"),
    ("dlq", "export", "group"),
    ("dlq", "resend", "group", "--all"),
    ("message", "find", "--id", "7F00000100002A9F0000000000000000"),
    ("user", "list"),
    ("consume", "t"),
)


def test_a_name_server_without_a_broker_says_so(cometmq: Run) -> None:
    with Process("namesrv", "--port", "0") as server:
        address = server.line().removeprefix("ready: name server ")
        for command in NEEDING_A_BROKER:
            ran = cometmq(*command, "-n", address)
            assert ran.failed(1, address, "knows no broker: start a broker with namesrvAddr"), command
            assert ran.out == "", command
        assert server.kill(signal.SIGTERM).code == 0


@pytest.mark.usefixtures("live")
def test_only_one_s_own_topics_are_listed_unless_all_are_asked_for(cometmq: Run) -> None:
    assert cometmq("topic", "list", "--json").values == [[]]
    cometmq("topic", "create", "orders")
    (own,) = cometmq("topic", "list", "--json").values
    (everything,) = cometmq("topic", "list", "--all", "--json").values
    assert [line["topic"] for line in own] == ["orders"]
    assert {"orders", "TBW102", "SCHEDULE_TOPIC_XXXX"} < {line["topic"] for line in everything}


def test_a_topic_is_created_for_a_type_of_messages(cometmq: Run, live: Live) -> None:
    async def attributes() -> dict[str, str]:
        async with TopicAdmin(live.name_server) as admin:
            ((_, config),) = (await admin.configs("orders")).values()
        return config.attributes

    for message_type in ("fifo", "DELAY"):
        assert cometmq("topic", "create", "orders", "--type", message_type).code == 0
        assert asyncio.run(attributes()) == {"message.type": message_type.upper()}
    assert cometmq("topic", "create", "orders", "--type", "odd").failed(2, "--type", "mixed")
