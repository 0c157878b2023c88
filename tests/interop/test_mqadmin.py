import asyncio
import hashlib
import re
from contextlib import suppress
from pathlib import Path

import pytest
from tests.interop.jvm import Run
from tests.interop.peers import Peer

from cometmq import Consumer, Lookup, Message, Producer, Start, StoredMessage
from cometmq.errors import NoRoute
from cometmq.wire.bodies.trace import TRACE_TOPIC

pytestmark = pytest.mark.interop

PATIENCE_S = 60

# Commands, and what the output of each must show. {…} is filled in by the test.
COMMANDS = {
    "clusterList": "DefaultCluster .* 0 +{broker}",
    "brokerStatus -b {broker}": r"(?s)brokerVersionDesc .*: V.*commitLogMaxOffset .*: \d.*putLatency99 ",
    "topicList": "(?m)^Admin$",
    "topicRoute -t Admin": r'"readQueueNums":4',
    "topicStatus -t Admin": r"(?s)#Max Offset.* 0 +0 +\d+ .* 3 +0 +\d+ ",
    "updateTopic -c DefaultCluster -t AdminMade -r 3 -w 3": "create topic to {broker} success",
    "topicRoute -t AdminMade": '"writeQueueNums":3',
    "queryMsgById -t Admin -i {offset_id}": "OffsetID: +{offset_id}",
    "queryMsgByKey -t Admin -k admin-0": "{message_id}",
    "queryMsgByUniqueKey -t Admin -i {message_id}": r"Keys: +\[admin-0 ",
    "setConsumeMode -b {broker} -t Admin -g TraceReaders -m POP -q 8": (
        r"topic\[Admin\] group\[TraceReaders\] consume mode\[POP\] popShareQueueNum\[8\]"
    ),
    "queryMsgTraceById -i {traced_id}": (
        r"(?s)\nPub +Tracers +127\.0\.0\.1 [^\n]* success *\n"
        r".*\nSub +TraceReaders +127\.0\.0\.1 [^\n]* success *\n"
    ),
    "statsAll -t Admin": r"(?m)^Admin +TraceReaders +\d+ +\d+\.\d\d +\d+\.\d\d +\d+ +\d+$",
    "brokerConsumeStats -b {broker}": r"Diff Total: \d+",
    "haStatus -b {broker}": r"(?s)#MasterCommitLogMaxOffset\s+[1-9].*#SlaveNum\s+0",
    "updateBrokerConfig -b {broker} -k fileReservedTime -v 71": "update broker config success",
    "getBrokerConfig -b {broker}": r"(?m)^fileReservedTime +=  71$",
    "checkRocksdbCqWriteProgress -c DefaultCluster -t Admin": "check doing",
    "queryCq -t Admin -q 0 -i 0": "physicOffset",
    "deleteExpiredCommitLog -c DefaultCluster": "success",
    "cleanExpiredCQ -c DefaultCluster": "success",
    "cleanUnusedTopic -c DefaultCluster": "success",
    "deleteTopic -c DefaultCluster -t AdminMade": r"delete topic \[AdminMade\] from NameServer success",
}


def test_mqadmin_commands_do_what_they_are_asked(broker: Peer, run_java: Run, tmp_path: Path) -> None:
    run_java("CreateTopic", broker.namesrv, broker.broker, 4, "Admin")
    sent = run_java("SendKeyed", broker.namesrv, "Admin", "admin", 20)[0]
    values = {
        "broker": broker.broker,
        "offset_id": sent["offsetMessageId"],
        "message_id": sent["messageId"],
        "traced_id": asyncio.run(send_traced(broker.namesrv)),
    }
    commands = tmp_path / "commands"
    commands.write_text("\n".join(command.format(**values) for command in COMMANDS))

    answers = run_java("Mqadmin", broker.namesrv, commands)

    bodies = bodies_written("".join(answer["output"] for answer in answers))
    for answer, expected in zip(answers, COMMANDS.values(), strict=True):
        output = answer["output"]
        assert re.search(expected.format(**values), output), f"mqadmin {answer['command']}:\n{output}"
        assert "Exception" not in output, f"mqadmin {answer['command']}:\n{output}"
        print(f"\n{broker.name}: mqadmin {answer['command']}", end="")
    assert [hashlib.sha1(body).hexdigest() for body in bodies] == [sent["bodySha1"]]


async def send_traced(namesrv: str) -> str:
    """Let clients of ours trace a message, and wait until the broker's index has that; gives its id."""
    async with Producer(namesrv, "Tracers", trace=True) as producer:
        sent = await producer.send(Message("Admin", b"traced"))
    consumer = Consumer(namesrv, "TraceReaders", start=Start.FIRST, trace=True)
    handled = asyncio.Event()

    @consumer.on("Admin")
    async def handle(message: StoredMessage) -> None:
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
    """Take the message bodies that mqadmin leaves in files of its own choice."""
    paths = {Path(path) for path in re.findall(r"Message Body Path: +(\S+)", output)}
    bodies = [path.read_bytes() for path in paths]
    for path in paths:
        path.unlink()
    return bodies
