import asyncio

import pytest
from tests.cli.conftest import Process, Run
from tests.live import BROKER, Live

from cometmq.admin.shrink import Progress, Step, Unconsumed
from cometmq.cli.topic_shrink import SHOWN_MAX, _view
from cometmq.client import Producer, PullConsumer
from cometmq.message import Message, MessageQueue

QUICK = ("--settle", "0s")


async def send(live: Live, queue_id: int, count: int) -> None:
    async with Producer(live.name_server) as producer:
        for _ in range(count):
            await producer.send(Message("orders", b"x"), MessageQueue("orders", BROKER, queue_id))


async def commit(live: Live, group: str, queue_id: int, offset: int) -> None:
    async with PullConsumer(live.name_server, group) as consumer:
        await consumer.commit(MessageQueue("orders", BROKER, queue_id), offset)


@pytest.fixture
def topic(cometmq: Run, live: Live) -> Live:
    """A topic of four queues, the last one with three messages; group g has consumed one of them."""
    assert cometmq("topic", "create", "orders", "--queues", "4").code == 0
    asyncio.run(send(live, 3, 3))
    asyncio.run(commit(live, "g", 3, 1))
    return live


def test_queues_are_retired_once_they_are_consumed(cometmq: Run, topic: Live) -> None:
    waited = cometmq("topic", "shrink", "orders", "--queues", "2", "--timeout", "0s", *QUICK)
    steps, _, line = waited.err.rpartition("error: ")
    assert steps == "lowering write queues: 2 messages left\nwaiting for consumers: 2 messages left\n"
    assert waited.code == 1 and "group g has not consumed 2 messages of queue 3 on broker-a" in line
    assert "run it again later" in line
    asyncio.run(commit(topic, "g", 3, 3))
    ran = cometmq("topic", "shrink", "orders", "--queues", "2", *QUICK)
    assert (ran.code, ran.out) == (0, "topic orders: 2 queues; 2 are retired, consumed by g\n")
    again = cometmq("topic", "shrink", "orders", "--queues", "2")
    assert again == (0, "topic orders: no broker has more than 2 queues of it, nothing to do\n", "")


@pytest.mark.usefixtures("topic")
def test_programs_get_json_whatever_comes_of_it(cometmq: Run) -> None:
    ran = cometmq("topic", "shrink", "orders", "--queues", "2", "--timeout", "0s", "--json", *QUICK)
    (value,) = ran.values
    assert (ran.code, ran.err) == (1, "")
    assert value.pop("why").startswith("not drained in time: ")
    assert value == {
        "topic": "orders",
        "queues": 2,
        "shrunk": False,
        "left": [{"broker_name": BROKER, "queue_id": 3, "group": "g", "messages": 2}],
    }
    ran = cometmq(
        "topic",
        "shrink",
        "orders",
        "--queues",
        "2",
        "--skip-group",
        "g",
        "--no-consumers-ok",
        "--json",
        *QUICK,
    )
    assert (ran.code, ran.values) == (
        0,
        [
            {
                "topic": "orders",
                "queues": 2,
                "shrunk": True,
                "retired": [{"broker_name": BROKER, "queue_id": 2}, {"broker_name": BROKER, "queue_id": 3}],
                "groups": [],
            }
        ],
    )


@pytest.mark.usefixtures("topic")
def test_it_runs_as_a_process_of_its_own() -> None:
    with Process("topic", "shrink", "orders", "--queues", "3", *QUICK, "--timeout", "0s") as process:
        assert process.told() == "lowering write queues: 2 messages left"
        assert process.end().code == 1


def test_people_see_where_most_is_left() -> None:
    left = [Unconsumed(BROKER, n, "g\x1b", n) for n in range(1, SHOWN_MAX + 3)]
    lines = _view(Progress(Step.DRAINING, [Unconsumed(BROKER, 99, None, 1_000), *left], 7.2))
    count = 1_000 + sum(range(1, SHOWN_MAX + 3))
    assert lines[0] == f"waiting for consumers: {count} messages left, quiet for 7 s"
    assert lines[1] == "  broker-a queue 99: 1000 left, no group"
    assert lines[2] == f"  broker-a queue {SHOWN_MAX + 2}: {SHOWN_MAX + 2} left, group g\\x1b"
    assert lines[-1] == "  … and 3 more" and len(lines) == SHOWN_MAX + 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("orders",), ("--queues", "topic shrink --help")),
        (("orders", "--queues", "0"), ("--queues", "65535")),
        (("orders", "--queues", "2", "--timeout", "10"), ("--timeout", "'10'", "10s")),
        (("a b", "--queues", "2"), ("a b",)),
    ],
)
@pytest.mark.usefixtures("live")
def test_arguments_that_cannot_be_used_are_named(
    cometmq: Run, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    assert cometmq("topic", "shrink", *arguments).failed(2, *words)
