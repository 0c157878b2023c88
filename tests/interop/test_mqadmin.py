"""mqadmin at both brokers, in the same state: what each command prints is compared."""

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.interop import peers
from tests.interop.groups import in_group
from tests.interop.jvm import Run
from tests.interop.mqadmin import COMMANDS, STOPPED, Command, compared
from tests.interop.patience import PATIENCE_S
from tests.interop.peers import BROKER_NAME, Peer

from cometmq import Consumer, Lookup, Message, Producer, PullConsumer, Start, StoredMessage
from cometmq.admin.topics import TopicAdmin
from cometmq.errors import NoRoute
from cometmq.message import MessageQueue
from cometmq.wire.bodies.trace import TRACE_TOPIC

pytestmark = pytest.mark.interop

UNDER_A_CONTROLLER = {"getBrokerEpoch"}
"""Run at brokers of a set, where both must print the same epochs: ``test_failover``."""
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "mqadmin.md"
QUEUES = [MessageQueue("Admin", BROKER_NAME, queue_id) for queue_id in range(4)]
SENT = 8
TOPICS = [{"topicName": "AdminListed", "readQueueNums": 2, "writeQueueNums": 2}]
GROUPS = [{"groupName": "AdminGroupListed", "consumeEnable": False}]


@pytest.mark.parametrize("process", [in_group("rocketmq", "shared")])
def test_each_command_of_the_page_prints_the_same_at_both_brokers(
    process: str, shared_brokers: Callable[[str], Peer], run_java: Run, tmp_path: Path
) -> None:
    assert process in peers.START
    outputs: dict[str, list[list[str]]] = {}
    for name in peers.START:
        folder = tmp_path / name
        folder.mkdir()
        outputs[name] = asyncio.run(printed(shared_brokers(name), run_java, folder))
    wrong = [
        f"mqadmin {command.words}\n  RocketMQ: {theirs}\n  CometMQ:  {ours}"
        for command, theirs, ours in zip(COMMANDS, outputs["rocketmq"], outputs["cometmq"], strict=True)
        if not (set(theirs) <= set(ours) if command.is_less else theirs == ours)
    ]
    assert not wrong, "\n\n".join(wrong)


def test_the_page_has_the_commands_that_are_compared() -> None:
    supported, _, rest = PAGE.read_text().partition("## Refused")
    assert names_on(supported) == {command.name for command in COMMANDS} | UNDER_A_CONTROLLER
    assert not names_on(supported) & names_on(rest)


def test_the_page_has_all_commands_that_there_are(run_java: Run, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.write_text("\n")
    (answer,) = run_java("Mqadmin", "127.0.0.1:1", commands)
    known = set(re.findall(r"(?m)^ {3}(\w+) ", answer["output"]))
    assert len(known) > 80 and names_on(PAGE.read_text()) == known


def names_on(page: str) -> set[str]:
    """Return the commands in a page's tables of sub-commands."""
    tables = re.findall(r"(?m)^\| sub-commands \|.*\n\|--.*\n((?:\|.*\n)+)", page)
    cells = [row.split("|")[1] for table in tables for row in table.splitlines()]
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


async def printed(broker: Peer, run_java: Run, folder: Path) -> list[list[str]]:
    """Run all commands at a broker; check what each must show, and return what is compared of each."""
    async with clients(broker) as ids:
        values = ids | written(folder) | {"broker": broker.broker, "namesrv": broker.namesrv}
        commands = folder / "commands"
        commands.write_text("\n".join(command.words.format(**values) for command in COMMANDS))
        answers = await asyncio.to_thread(run_java, "Mqadmin", broker.namesrv, commands)
    outputs = [answer["output"] for answer in answers]
    bodies = bodies_written("".join(outputs))
    for command, output in zip(COMMANDS, outputs, strict=True):
        assert re.search(shown(command, values), output), f"{broker.name}: mqadmin {command.words}:\n{output}"
        is_stopped = command.name in STOPPED
        assert is_stopped or "\n\tat " not in output, f"{broker.name}: mqadmin {command.words}:\n{output}"
    assert {hashlib.sha1(body).hexdigest() for body in bodies} >= {hashlib.sha1(b"body-0").hexdigest()}
    check_exports(folder)
    return [compared(*each, values) for each in zip(COMMANDS, outputs, strict=True)]


def shown(command: Command, values: dict[str, str]) -> str:
    """Return the pattern that an output must match."""
    pattern = command.shows
    for name, value in values.items():
        pattern = pattern.replace(f"{{{name}}}", re.escape(value))
    return pattern


def written(folder: Path) -> dict[str, str]:
    """Write the files that commands read; return their paths, and where commands write."""
    paths = {"topics": folder / "topics.json", "groups": folder / "groups.json", "folder": folder / "export"}
    paths["topics"].write_text(json.dumps(TOPICS))
    paths["groups"].write_text(json.dumps(GROUPS))
    return {name: str(path) for name, path in paths.items()}


def check_exports(folder: Path) -> None:
    """Check the files that the export commands wrote."""
    metadata, configs, metrics = (
        json.loads((folder / "export" / f"{name}.json").read_text())
        for name in ("metadata", "configs", "metrics")
    )
    admin = metadata["topicConfigTable"]["Admin"]
    assert (admin["readQueueNums"], admin["perm"]) == (4, 6)
    assert metadata["subscriptionGroupTable"]["AdminGroupListed"]["consumeEnable"] is False
    assert configs["brokerConfigs"][BROKER_NAME]["fileReservedTime"] == "71"
    assert metrics["evaluateReport"][BROKER_NAME]["runtimeQuota"]["messageAverageSize"]


@asynccontextmanager
async def clients(broker: Peer) -> AsyncIterator[dict[str, str]]:
    """Create a topic with messages, connect a producer and a consumer, and provide their ids."""
    async with (
        asyncio.timeout(2 * PATIENCE_S),
        TopicAdmin(broker.namesrv) as admin,
        Producer(broker.namesrv, "AdminSenders") as producer,
        PullConsumer(broker.namesrv, "AdminReaders") as reader,
    ):
        await admin.create("Admin", queues=len(QUEUES))
        sent = [
            await producer.send(
                Message("Admin", b"body-%d" % number, f"tag{number % 2}", (f"admin-{number}",)),
                QUEUES[number % len(QUEUES)],
            )
            for number in range(SENT)
        ]
        values = {"message_id": sent[0].message_id, "offset_id": sent[0].offset_id}
        values["traced_id"] = await send_traced(broker.namesrv)
        consumer = Consumer(broker.namesrv, "AdminReaders", start=Start.FIRST)
        consumer.subscribe("Admin", handle)
        async with consumer:
            values["client_id"] = consumer.client_id
            await has_read_all(reader)
            yield values


async def has_read_all(reader: PullConsumer) -> None:
    """Wait until a group has committed that it has read all messages."""
    while True:
        if [await reader.committed(queue) for queue in QUEUES] == [3, 2, 2, 2]:
            return
        await asyncio.sleep(0.1)


async def handle(_: StoredMessage) -> None:
    """Handle a message."""


async def send_traced(namesrv: str) -> str:
    """Trace a message by clients of ours, wait until the broker's index has that; return its id."""
    async with Producer(namesrv, "Tracers", trace=True) as producer:
        sent = await producer.send(Message("Admin", b"traced"), QUEUES[0])
    consumer = Consumer(namesrv, "TraceReaders", start=Start.FIRST, trace=True)
    handled = asyncio.Event()

    @consumer.on("Admin")
    async def handle_traced(message: StoredMessage) -> None:
        if message.message_id == sent.message_id:
            handled.set()

    async with asyncio.timeout(PATIENCE_S), consumer:
        await handled.wait()
    async with asyncio.timeout(PATIENCE_S), Lookup(namesrv) as lookup:
        while True:
            with suppress(NoRoute):  # the broker tells the name server of the topic a moment later
                if len(await lookup.by_key(TRACE_TOPIC, sent.message_id)) == len(("sent", "handled")):
                    return sent.message_id
            await asyncio.sleep(0.05)


def bodies_written(output: str) -> list[bytes]:
    """Collect the message bodies that mqadmin leaves in files of its own choice."""
    paths = {Path(path) for path in re.findall(r"Message Body Path: +(\S+)", output)}
    bodies = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    return bodies
