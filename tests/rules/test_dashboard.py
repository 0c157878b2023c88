"""What RocketMQ's dashboard (1.0 to 2.1) and rocketmq-exporter ask, as they ask it, and what they read of it.

Requests are written as Java's clients encode them, and answers are read by name, so that no change of our
types can change both. What the dashboard asks about users and access control (3001 to 3010) is refused here:
it needs authentication.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any, NamedTuple

from tests.broker.conftest import Bench, pull_header
from tests.broker.conftest import serving as broker_parts
from tests.broker.pops import popped
from tests.live import BROKER, Live, serving

from cometmq.client import Consumer, Producer, PullConsumer, Start
from cometmq.format.java import fastjson
from cometmq.message import Message, StoredMessage
from cometmq.net.client import Connections
from cometmq.wire.bodies import GroupConfig, Heartbeat, ProducerData, encode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

PATIENCE_S = 60
TIME_MAX = str(2**63 - 1)
CLUSTER = "DefaultCluster"
BIRTH = "1795602262251"

NUMBERS_OF_28 = [
    "msgPutTotalTodayNow",
    "msgPutTotalTodayMorning",
    "msgPutTotalYesterdayMorning",
    "msgGetTotalTodayNow",
    "msgGetTotalTodayMorning",
    "msgGetTotalYesterdayMorning",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueSize",
    "pullThreadPoolQueueSize",
    "sendThreadPoolQueueSize",
    "queryThreadPoolQueueCapacity",
    "sendThreadPoolQueueCapacity",
    "pullThreadPoolQueueCapacity",
    "bootTimestamp",
    "commitLogMinOffset",
    "commitLogMaxOffset",
    "dispatchMaxBuffer",
    "brokerVersion",
    "consumeQueueDiskRatio",
    "commitLogDiskRatio",
    "pageCacheLockTimeMills",
    "getMessageEntireTimeMax",
    "putMessageTimesTotal",
    "startAcceptSendRequestTimeStamp",
    "putMessageEntireTimeMax",
    "earliestMessageTimeStamp",
    "remainTransientStoreBufferNumbs",
    "putMessageAverageSize",
    "dispatchBehindBytes",
    "putMessageSizeTotal",
]
"""The keys of the runtime info that rocketmq-exporter reads as numbers; without one it shows nothing."""


class Asked(NamedTuple):
    """A request of a page of the dashboard, or of the exporter, and what is read of the answer.

    Attributes:
        reads: paths into the JSON body, members joined by dots; ``*`` is the first of several.
        fields: names in the answer's header.
    """

    code: int
    header: Mapping[str, str]
    reads: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    body: bytes = b""


TO_NAME_SERVER = [
    Asked(206, {}, ("topicList.*",)),
    Asked(105, {"topic": "T"}, ("brokerDatas.*.brokerAddrs.*", "queueDatas.*.readQueueNums")),
    Asked(105, {"topic": "%RETRY%readers"}, ("brokerDatas.*.brokerAddrs.*",)),
    Asked(106, {}, (f"brokerAddrTable.{BROKER}.brokerAddrs.*", f"clusterAddrTable.{CLUSTER}.*")),
    Asked(304, {}, ("topicList.*",)),
]


def of_topics() -> list[Asked]:
    """Return what the pages of topics and of the cluster ask a broker."""
    created = {
        "topic": "Made",
        "defaultTopic": "TBW102",
        "readQueueNums": "4",
        "writeQueueNums": "4",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
        "attributes": "+message.type=NORMAL",
    }
    queue = {"topic": "T", "queueId": "0"}
    return [
        Asked(28, {}, tuple(f"table.{key}" for key in (*NUMBERS_OF_28, "getTotalTps", "putTps"))),
        Asked(26, {}, fields=("version",)),
        Asked(305, {}, ("topicList.*",)),
        Asked(21, {}, ("topicConfigTable.T.readQueueNums", "dataVersion.counter")),
        Asked(202, {"topic": "T"}, ("offsetTable.*.maxOffset", "offsetTable.*.lastUpdateTimestamp")),
        Asked(17, created),
        Asked(351, {"topic": "Made", "lo": "true"}, ("topicName", "perm", "writeQueueNums", "attributes")),
        Asked(300, {"topic": "T"}, ("groupList.*",)),
        Asked(215, {"topic": "Made"}),
        Asked(29, queue | {"timestamp": "0", "boundaryType": "LOWER"}, fields=("offset",)),
        Asked(30, queue, fields=("offset",)),
        Asked(31, queue, fields=("offset",)),
    ]


def of_groups(client_id: str) -> list[Asked]:
    """Return what the pages of consumers and producers ask."""
    group, member = {"consumerGroup": "readers"}, {"clientId": client_id, "jstackEnable": "false"}
    reset = {"topic": "T", "group": "readers", "timestamp": "-1", "isForce": "true"}
    made = encode(GroupConfig(group="made"))
    connection = "connectionSet.*"
    return [
        Asked(201, {}, ("subscriptionGroupTable.readers.retryMaxTimes", "dataVersion.counter")),
        Asked(208, group, ("offsetTable.*.brokerOffset", "offsetTable.*.lastTimestamp", "consumeTps")),
        Asked(208, group | {"topic": "T"}, ("offsetTable.*.consumerOffset", "offsetTable.*.pullOffset")),
        Asked(
            203,
            group,
            (
                *(f"{connection}.clientId", f"{connection}.version", "subscriptionTable.T.subString"),
                *("consumeType", "messageModel", "consumeFromWhere"),
            ),
        ),
        Asked(
            307,
            group | member,
            (
                *("properties.PROP_CONSUME_TYPE", "subscriptionSet.*.topic", "mqTable.*.commitOffset"),
                "statusTable.T.consumeOKTPS",
            ),
        ),
        Asked(222, reset, ("offsetTable.*",)),
        Asked(15, group | {"topic": "T", "queueId": "0", "commitOffset": "1"}),
        Asked(200, {}, body=made),
        Asked(207, {"groupName": "made", "cleanOffset": "true"}),
        Asked(204, {"producerGroup": "senders"}, (f"{connection}.clientAddr", f"{connection}.language")),
        Asked(328, {}, ("data.senders.*.clientId", "data.senders.*.remoteIP", "data.senders.*.version")),
    ]


def of_messages(message_id: str, offset_id: str, client_id: str) -> list[Asked]:
    """Return what the pages of messages, dead letters and traces ask."""
    sent = {
        "a": "CLIENT_INNER_PRODUCER",
        "b": "T",
        "c": "TBW102",
        "d": "4",
        "e": "0",
        "f": "0",
        "g": BIRTH,
        "h": "0",
        "i": "TAGS\x01paid\x02WAIT\x01true",
        "j": "0",
        "k": "false",
        "l": "0",
        "m": "false",
    }
    pull = {
        "consumerGroup": "TOOLS_CONSUMER",
        "topic": "T",
        "queueId": "0",
        "queueOffset": "0",
        "maxMsgNums": "32",
        "sysFlag": "4",
        "commitOffset": "0",
        "suspendTimeoutMillis": "20000",
        "subscription": "*",
        "subVersion": "0",
        "expressionType": "TAG",
    }
    find = {"topic": "T", "maxNum": "64", "beginTimestamp": "0", "endTimestamp": TIME_MAX}
    direct = {"consumerGroup": "readers", "clientId": client_id, "msgId": offset_id, "brokerName": BROKER}
    heartbeat = encode(Heartbeat("dashboard", producers=[ProducerData("CLIENT_INNER_PRODUCER")]))
    return [
        Asked(34, {}, body=heartbeat),
        Asked(310, sent, fields=("msgId", "queueId", "queueOffset"), body=b"from the dashboard"),
        Asked(35, {"clientID": "dashboard", "producerGroup": "CLIENT_INNER_PRODUCER"}),
        Asked(11, pull, fields=("nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId")),
        Asked(12, find | {"key": "42", "_UNIQUE_KEY_QUERY": "false"}, fields=("indexLastUpdateTimestamp",)),
        Asked(12, find | {"key": message_id, "_UNIQUE_KEY_QUERY": "true"}),
        Asked(33, {"offset": str(int(offset_id[16:], 16))}),
        Asked(309, direct, ("consumeResult", "spentTimeMills", "order", "autoCommit")),
    ]


async def test_each_request_is_answered_with_what_is_read(tmp_path: Path) -> None:
    """All pages but that of access control."""
    async with asyncio.timeout(PATIENCE_S), serving(tmp_path) as live, clients(live) as ids:
        connections = Connections()
        await ask_all(connections, live.name_server, TO_NAME_SERVER)
        for requests in (of_topics(), of_groups(ids["client_id"]), of_messages(**ids)):
            await ask_all(connections, live.broker, requests)
        await ask_all(connections, live.name_server, [Asked(216, {"topic": "Made", "clusterName": CLUSTER})])
        await connections.close()


async def test_the_runtime_info_is_one_that_the_exporter_can_read(tmp_path: Path) -> None:
    """One text that is no number, and it exports nothing of the broker."""
    async with serving(tmp_path) as live:
        connections = Connections()
        answer = await connections.request(live.broker, Command(28))
        await connections.close()
    table = fastjson.loads(answer.body)["table"]
    for key in NUMBERS_OF_28:
        float(table[key])
    for key in ("putTps", "getMissTps", "getTransferredTps", "getTotalTps", "getFoundTps"):
        assert len([float(rate) for rate in table[key].split(" ")]) == 3
    words = table["commitLogDirCapacity"].split(" ")
    assert (words[0], words[4]) == ("Total", "Free") and float(words[2]) > 0 and float(words[6]) > 0
    assert table["remainHowManyDataToFlush"].split(" ")[0].isdecimal()
    delays = [value for key, value in table.items() if key.startswith("scheduleMessageOffset_")]
    assert all(len([int(part) for part in value.split(",")]) == 2 for value in delays)


async def test_the_charts_of_a_topic_show_what_was_sent_pulled_and_popped(tmp_path: Path) -> None:
    """The dashboard adds a line for each topic and minute to a file a day, and its charts show that."""
    async with broker_parts(tmp_path) as bench:
        for number in range(6):
            await bench.send("T", bytes(number + 1))
        assert (await bench.ask(RequestCode.PULL_MESSAGE, pull_header("T"))).code == ResponseCode.SUCCESS
        bench.parts.offsets.commit("cg", "T", 0, 6)
        assert len(await popped(bench)) == 6
        bench.clock.advance(10_000)
        await bench.parts.statistics.sample()
        line = await collected(bench, "T")
        assert line.split(",")[1:] == ["0.60000", "6", "1.20000", "12"]
        for _ in range(7):  # a minute later the rates are over, and the sums of the day remain
            bench.clock.advance(10_000)
            await bench.parts.statistics.sample()
        for _ in range(60 - 8):
            bench.clock.advance(10_000)
            await bench.parts.statistics.sample()
        line = await collected(bench, "T")
        assert line.split(",")[1:] == ["0.00000", "6", "0.00000", "12"]


async def collected(bench: Bench, topic: str) -> str:
    """Return the line that the dashboard's collector makes of a topic's statistics at one broker."""
    groups = await read(bench, 300, {"topic": topic})
    stats = await read(bench, 315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": topic})
    out_tps, out_sum = Decimal(0), 0
    for group in groups["groupList"]:
        header = {"statsName": "GROUP_GET_NUMS", "statsKey": f"{topic}@{group}"}
        of_group = await read(bench, 315, header)
        out_tps += Decimal(of_group["statsMinute"]["tps"])
        out_sum += sum_of_day(of_group)
    in_tps = rounded(Decimal(stats["statsMinute"]["tps"]))
    return f"{bench.clock.now_ms()},{in_tps},{sum_of_day(stats)},{rounded(out_tps)},{out_sum}"


def sum_of_day(stats: Mapping[str, Any]) -> int:
    """Return the sum that the dashboard takes for the day: of the longest span that has one."""
    sums = [stats[span]["sum"] for span in ("statsDay", "statsHour", "statsMinute")]
    found: int = next((one for one in sums if one), 0)
    return found


def rounded(rate: Decimal) -> Decimal:
    return rate.quantize(Decimal("0.00001"), ROUND_HALF_UP)


async def read(bench: Bench, code: int, header: Mapping[str, str]) -> Any:
    answer = await bench.connection.request(Command(code, ext_fields=dict(header)))
    assert answer.code == ResponseCode.SUCCESS, answer
    return fastjson.loads(answer.body)


async def ask_all(connections: Connections, address: str, requests: list[Asked]) -> None:
    """Send requests in order, and check that the answers have what is read."""
    for asked in requests:
        command = Command(asked.code, ext_fields=dict(asked.header), body=asked.body)
        answer = await connections.request(address, command)
        assert answer.code == ResponseCode.SUCCESS, (asked, answer)
        for path in asked.reads:
            assert found_at(fastjson.loads(answer.body), path) is not None, (asked.code, path, answer.body)
        assert set(asked.fields) <= answer.ext_fields.keys(), (asked.code, answer.ext_fields)


def found_at(value: Any, path: str) -> Any:
    """Return the value at a path; None if there is none."""
    parts = path.split(".")
    while parts and value is not None:
        part = parts.pop(0)
        if part == "*":
            values = list(value.values() if isinstance(value, dict) else value)
            value = values[0] if values else None
        else:
            value = value.get(part)
    return value


@asynccontextmanager
async def clients(live: Live) -> AsyncIterator[dict[str, str]]:
    """Connect a producer and a consumer, and send a message; yield the ids of message and consumer."""
    handled = asyncio.Event()

    async def handle(_: StoredMessage) -> None:
        handled.set()

    async with Producer(live.name_server, "senders") as producer:
        sent = await producer.send(Message("T", b"body", "paid", ("42",)))
        consumer = Consumer(live.name_server, "readers", start=Start.FIRST)
        consumer.subscribe("T", handle)
        async with consumer, PullConsumer(live.name_server, "readers") as reader:
            await handled.wait()
            await reader.commit(sent.queue, 1)
            yield {
                "message_id": sent.message_id,
                "offset_id": sent.offset_id,
                "client_id": consumer.client_id,
            }
