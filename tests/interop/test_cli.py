"""The command line operates either broker, with Java's clients at work."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.cli import conftest as cli
from tests.interop.jvm import Run
from tests.interop.patience import PATIENCE_S, wait_until
from tests.interop.peers import Peer

from cometmq.client import Consumer, Producer, Start
from cometmq.client.handling.outcome import DeadLetter
from cometmq.message import Message, StoredMessage

pytestmark = pytest.mark.interop

TOPIC, GROUP, QUEUES = "CliOrders", "CliBilling", 2
COUNT = 10

cometmq = cli.cometmq
Ask = Callable[..., Any]


@pytest.fixture
def ask(cometmq: cli.Run, broker: Peer, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """Runs a command that must go well, and gives what it says as JSON."""
    monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv)

    def run(*arguments: str, text: str = "") -> Any:
        ran = cometmq(*arguments, "--json", text=text)
        assert (ran.code, ran.err) == (0, ""), ran
        return ran.values if len(ran.values) != 1 else ran.values[0]

    return run


def test_a_cluster_is_operated(
    broker: Peer, cometmq: cli.Run, ask: Ask, run_java: Run, tmp_path: Path
) -> None:
    make_a_topic(ask, cometmq, broker)
    sent = find_messages(ask, cometmq)
    with java_member(broker, run_java) as java:
        member = operate_with_a_member(ask, sent["offset_id"])
        asyncio.run(end(broker))
        (ended,) = java.result(PATIENCE_S)
    assert ended["clientId"] == member
    assert min(ended["bodies"].count(str(n)) for n in range(COUNT)) >= 2, ended
    assert ended["bodies"].count("0") >= 3, ended
    operate_without_members(ask, cometmq)
    stand_where_mqadmin_says(ask, broker, run_java, tmp_path)
    remove(ask, cometmq)


def make_a_topic(ask: Ask, cometmq: cli.Run, broker: Peer) -> None:
    ask("topic", "create", TOPIC, "--queues", "1")
    (changed,) = ask("topic", "update", TOPIC, "--queues", str(QUEUES))
    assert (changed["read_queues"], changed["write_queues"]) == (QUEUES, QUEUES)
    assert TOPIC in {line["topic"] for line in ask("topic", "list")}
    (route,) = ask("topic", "route", TOPIC)["brokers"]
    assert (route["address"], route["broker_id"]) == (broker.broker, 0)
    wait_until(lambda: cometmq("cluster").code == 0)  # a Java broker has no statistics in its first seconds
    (line,) = ask("cluster")
    assert line["address"] == broker.broker and line["version"].startswith("V")


def find_messages(ask: Ask, cometmq: cli.Run) -> dict[str, Any]:
    """Send some; find them again by all that is known of them. Gives what became of the first."""
    sent: dict[str, Any] = ask("send", TOPIC, "0", "--tags", "paid", "--key", "k0")
    lines = "".join(f"{n}\n" for n in range(1, COUNT))
    assert cometmq("send", TOPIC, text=lines).code == 0
    wait_until(lambda: ask("topic", "stats", TOPIC)["messages"] == COUNT)
    for asked in (
        ("--id", sent["offset_id"]),
        ("--id", sent["message_id"], "--topic", TOPIC),
        ("--key", "k0", "--topic", TOPIC),
    ):
        wait_until(partial(finds, cometmq, *asked))
        assert ask("message", "find", *asked)["body"] == "0"
    bodies = [message["body"] for message in ask("message", "print", TOPIC, "--time", "2020-01-01..")]
    assert sorted(bodies, key=int) == [str(n) for n in range(COUNT)]
    last = ask("tail", TOPIC, "--no-follow", "--last", "3")
    assert [message["body"] for message in last] == [str(n) for n in range(COUNT - 3, COUNT)]
    assert cometmq("message", "find", "--key", "none", "--topic", TOPIC).code == 3
    assert cometmq("tail", "CliOrder", "--no-follow").failed(3, f"nearest {TOPIC!r}")
    return sent


def finds(cometmq: cli.Run, *asked: str) -> bool:
    return cometmq("message", "find", *asked).code == 0


@contextmanager
def java_member(broker: Peer, run_java: Run) -> Iterator[Future[list[dict[str, Any]]]]:
    """Run a Java consumer as a member of the group; it ends when it has had an end from each queue."""
    with ThreadPoolExecutor(1) as pool:
        share = (QUEUES, "concurrent", "averagely", "127.0.0.1@java")
        yield pool.submit(run_java, "Member", broker.namesrv, TOPIC, GROUP, *share)


async def end(broker: Peer) -> None:
    async with Producer(broker.namesrv) as producer:
        for queue in await producer.queues(TOPIC):
            await producer.send(Message(TOPIC, b"end"), queue)


def operate_with_a_member(ask: Ask, offset_id: str) -> str:
    """Show a Java member, hand it a message, skip its offsets; return its client id."""
    wait_until(lambda: GROUP in {line["group"] for line in ask("group", "list")})
    wait_until(lambda: committed(ask) == COUNT)
    (member,) = ask("group", "show", GROUP)["members"]
    assert member["language"] == "JAVA"
    info = ask("group", "member", GROUP, member["client_id"])
    assert {queue["queue_id"] for queue in info["queues"] if queue["topic"] == TOPIC} == set(range(QUEUES))
    owners = {queue["member"] for queue in ask("lag", GROUP)["queues"] if queue["topic"] == TOPIC}
    assert owners == {member["client_id"]}
    handled = ask("message", "resend", offset_id, "--group", GROUP)
    assert (handled["handled"], handled["client_id"]) == (True, member["client_id"])
    moved = ask("offset", "reset", GROUP, TOPIC, "--to", "earliest")["queues"]
    assert sum(queue["before"] for queue in moved) == COUNT and {queue["after"] for queue in moved} == {0}
    ask("send", TOPIC, text="a\nb\nc\nd\n")  # wakes the pulls that a Java broker holds
    wait_until(lambda: committed(ask) == COUNT + 4)
    return str(member["client_id"])


def operate_without_members(ask: Ask, cometmq: cli.Run) -> None:
    wait_until(lambda: ask("group", "show", GROUP)["members"] == [])
    ask("offset", "skip", GROUP, TOPIC)
    end = sum(queue["max_offset"] for queue in ask("topic", "stats", TOPIC)["queues"])
    assert committed(ask) == end
    wait_until(lambda: cometmq("offset", "clone", GROUP, "CliOther").code == 0)
    assert committed(ask, "CliOther") == end
    ask("offset", "reset", GROUP, TOPIC, "--to", "1d")
    assert committed(ask) == 0
    (first,) = ask("offset", "reset", GROUP, TOPIC, "--to-offset", "1", "--queue", queue_of(ask))["queues"]
    assert (first["before"], first["after"], committed(ask)) == (0, 1, 1)


def stand_where_mqadmin_says(ask: Ask, broker: Peer, run_java: Run, tmp_path: Path) -> None:
    """Compare the lag with mqadmin's, and what it resets and clones."""
    before = lag(ask)
    ask("group", "create", "CliClone")
    progress, reset, cloned = mqadmin(
        run_java,
        broker,
        tmp_path / "commands",
        f"consumerProgress -g {GROUP}",
        f"resetOffsetByTime -g {GROUP} -t {TOPIC} -s now",
        f"cloneGroupOffset -s {GROUP} -d CliClone -t {TOPIC}",
    )
    print(f"\n{broker.name}: {before}")
    assert before == lags_told(progress) and len(before) >= QUEUES, progress
    end = sum(queue["max_offset"] for queue in ask("topic", "stats", TOPIC)["queues"])
    assert 1 < end == committed(ask), reset
    assert committed(ask, "CliClone") == end, cloned


def mqadmin(run_java: Run, broker: Peer, path: Path, *commands: str) -> list[str]:
    """Run commands of mqadmin, and give what each says."""
    path.write_text("\n".join(commands))
    return [answer["output"] for answer in run_java("Mqadmin", broker.namesrv, path)]


def lags_told(output: str) -> dict[tuple[str, str, int], list[int]]:
    """Read end, committed, lag and what is in flight of each queue out of a table of mqadmin's."""
    theirs = {}
    for line in output.splitlines():
        if line.startswith((TOPIC, "%RETRY%")):
            topic, name, queue_id, end, done, diff, in_flight, *_ = line.split()
            theirs[topic, name, int(queue_id)] = [int(end), int(done), int(diff), int(in_flight)]
    return theirs


def lag(ask: Ask) -> dict[tuple[str, str, int], list[int]]:
    """Return the same as we tell it."""
    return {
        (queue["topic"], queue["broker_name"], queue["queue_id"]): [
            *(queue["max_offset"], queue["committed"], queue["lag"], queue["in_flight"]),
        ]
        for queue in ask("lag", GROUP)["queues"]
    }


def remove(ask: Ask, cometmq: cli.Run) -> None:
    ask("group", "create", GROUP, "--retries", "3")
    assert ask("group", "show", GROUP)["config"]["retryMaxTimes"] == 3
    ask("group", "delete", GROUP)
    assert cometmq("group", "show", GROUP).code == 3
    ask("topic", "delete", TOPIC)
    assert cometmq("topic", "stats", TOPIC).code == 3


def test_dead_letters_come_again_and_mqadmin_understands_a_python_member(
    broker: Peer, cometmq: cli.Run, ask: Ask, run_java: Run, tmp_path: Path
) -> None:
    topic, group = "CliDead", "CliGivesUp"
    ask("topic", "create", topic, "--queues", "1")
    sent = ask("send", topic, "x")

    async def main() -> None:
        consumer = Consumer(broker.namesrv, group, start=Start.FIRST)
        bodies: asyncio.Queue[bytes] = asyncio.Queue()
        dies = [True]

        @consumer.on(topic)
        async def handle(message: StoredMessage) -> None:
            await bodies.put(message.body)
            if dies.pop() if dies else False:
                raise DeadLetter

        async with asyncio.timeout(PATIENCE_S), consumer:
            assert await bodies.get() == b"x"
            while (await asyncio.to_thread(cometmq, "dlq", "list", group, "--json")).out in ("", "[]\n"):
                continue
            (letter,) = await asyncio.to_thread(ask, "dlq", "list", group)
            assert (letter["original_topic"], letter["body"]) == (topic, "x")
            await asyncio.to_thread(ask, "dlq", "resend", group, "--all")
            assert await bodies.get() == b"x"
            status, pushed = await asyncio.to_thread(
                mqadmin,
                run_java,
                broker,
                tmp_path / "commands",
                f"consumerStatus -g {group} -i {consumer.client_id}",
                f"queryMsgById -t {topic} -i {sent['offset_id']} -g {group} -d {consumer.client_id}",
            )
            assert "CONSUME_PASSIVELY" in status and f"Topic: {topic} " in status, status
            assert "CR_SUCCESS" in pushed, pushed
            assert await bodies.get() == b"x"

    asyncio.run(main())
    assert group in {line["group"] for line in ask("dlq", "list")}
    assert cometmq("dlq", "export", group).values[0]["body"] == "x"


def committed(ask: Ask, group: str = GROUP) -> int:
    """Return what a group has committed in the topic, all queues together."""
    return sum(queue["committed"] for queue in ask("offset", "show", group, "--topic", TOPIC)["queues"])


def queue_of(ask: Ask) -> str:
    (route,) = ask("topic", "route", TOPIC)["brokers"]
    return f"{route['broker_name']}:0"


def test_its_health_and_traffic_are_shown(ask: Ask, broker: Peer, cometmq: cli.Run) -> None:
    assert cometmq("topic", "create", "CliHealth", "--queues", "1").code == 0
    cometmq("send", "CliHealth", text="0\n1\n")
    findings = ask("doctor", "--topic", "CliHealth")["findings"]
    levels = {one["check"]: one["level"] for one in findings if one["check"] != "disk"}
    assert (
        levels.items() >= dict.fromkeys(("name server", "address", "ports", "clock", "route"), "ok").items()
    )
    seen = ask("top", "--once", "--interval", "1ms")
    assert {"topic": "CliHealth", "in_per_s": 0.0, "messages": 2} in seen["topics"]
    assert broker.broker in {line["address"] for line in seen["brokers"]}
