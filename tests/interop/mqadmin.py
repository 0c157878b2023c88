"""The commands of mqadmin that either broker must answer alike, and how their output is compared.

They are run in this order, over the state that ``test_mqadmin.py`` makes. Where outputs differ by nature,
that is masked: addresses, times, ids, numbers of a machine.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

NUMBERS = r"\d+(\.\d+)?"
"""A mask for numbers that no two brokers have in common."""
NOT_RETRY = "^(?!%RETRY%)"
"""Keeps no lines of retry topics: CometMQ's clients commit nothing in an empty queue of a CometMQ broker."""
MASKS = {
    r"\d{4}-\d\d-\d\d[ #]\d\d:\d\d:\d\d([.,:]\d+)?": "<time>",
    r"\b1\d{12}\b": "<time>",
    r"\b[0-9A-F]{32}([0-9A-F]{24})?\b": "<id>",
    r"127\.0\.0\.1:\d+": "<peer>",
    r"\d+ms": "<ms>",
    r"TPS: .*": "TPS: <number>",
    r"\d+ topics are known here\.\n": "",
    r"(See|For more information, please visit the url,) https:[^ ,]+( for further details\.)?": "<url>",
    r"commitLogOffset=\d+|CommitLog Offset: +\d+": "<place>",
}
"""What is masked in all outputs, after the broker's own address and the name server's."""


class Command(NamedTuple):
    """A command of mqadmin; ``{…}`` is filled in by the test.

    Attributes:
        words: the command.
        shows: a pattern that its output must match.
        keeps: only lines that match this are compared.
        masks: patterns of what else is masked.
        is_less: whether CometMQ may show more than the lines of RocketMQ; each of these it must show.
    """

    words: str
    shows: str
    keeps: str = ""
    masks: tuple[str, ...] = ()
    is_less: bool = False

    @property
    def name(self) -> str:
        """The sub-command."""
        return self.words.partition(" ")[0]


STOPPED = frozenset({"clusterRT"})
"""Commands that go on until they are stopped, which they report as an exception."""

COMMANDS = [
    # Topics
    Command(
        "updateTopic -c DefaultCluster -t AdminMade -r 3 -w 3 -a +message.type=FIFO",
        "create topic to {broker} success",
    ),
    Command("topicRoute -t AdminMade", '"writeQueueNums":3'),
    Command("updateTopicList -b {broker} -f {topics}", "submit batch of topic config to {broker} success"),
    Command("topicRoute -t AdminListed", '"readQueueNums":2'),
    Command("updateTopicPerm -b {broker} -t AdminMade -p 4", "update topic perm from 6 to 4 in {broker}"),
    Command("topicRoute -t AdminMade", '"perm":4'),
    Command("updateOrderConf -t AdminListed -m put -v broker-a:2", "update orderConf success"),
    Command("updateOrderConf -t AdminListed -m get", r"orderConf=\[broker-a:2\]"),
    Command("updateOrderConf -t AdminListed -m delete", "delete orderConf success"),
    Command("topicStatus -t Admin", r"(?s)#Max Offset.* 0 +0 +3 .* 3 +0 +2 "),
    Command("topicClusterList -t Admin", "^DefaultCluster$"),
    Command("topicList", "(?m)^Admin$", keeps="^Admin"),
    Command("topicList -c", "(?m)^DefaultCluster +Admin +AdminReaders", keeps=" Admin"),
    Command("allocateMQ -t Admin -i 10.0.0.1,10.0.0.2", '"10.0.0.2":'),
    Command("statsAll -t Admin", r"(?m)^Admin +TraceReaders +\d+ +\d+\.\d\d", masks=(rf" {NUMBERS}",)),
    # Groups
    Command("updateSubGroup -b {broker} -g AdminGroup -r 3", "create subscription group to {broker} success"),
    Command("updateSubGroupList -b {broker} -f {groups}", "submit batch of group config to {broker} success"),
    Command("getConsumerConfig -g AdminGroup", r"(?m)^retryMaxTimes +=  3$"),
    Command("getConsumerConfig -g AdminGroupListed", r"(?m)^consumeEnable +=  false$"),
    Command(
        "setConsumeMode -b {broker} -t Admin -g AdminGroup -m POP -q 8",
        r"topic\[Admin\] group\[AdminGroup\] consume mode\[POP\] popShareQueueNum\[8\]",
    ),
    Command("consumerConnection -g AdminReaders", r"(?s){client_id} .*Admin +\*.*CONSUME_PASSIVELY"),
    Command("consumerStatus -g AdminReaders -i {client_id}", "Admin", masks=(NUMBERS,)),
    Command("consumerProgress -g AdminReaders", "Consume Diff Total: 0", keeps=NOT_RETRY),
    Command(
        "consumerProgress -g AdminReaders -s true", r"Admin +broker-a +0 +3 +3 +\d+\.\d+", keeps=NOT_RETRY
    ),
    Command("consumerProgress", "(?m)^AdminReaders +1 ", keeps="^AdminReaders", masks=(r" \d+ +0$",)),
    Command("brokerConsumeStats -b {broker}", r"Diff Total: \d+", keeps="^Admin +AdminReaders"),
    Command("updateSubGroup -b {broker} -g AdminClone", "create subscription group to {broker} success"),
    Command("cloneGroupOffset -s AdminReaders -d AdminClone -t Admin", "clone group offset success"),
    Command("resetOffsetByTime -g AdminClone -t Admin -s 1", r"broker-a +3 +0"),
    Command("consumerProgress -g AdminClone -t Admin", "Consume Diff Total: 9"),
    Command("skipAccumulatedMessage -g AdminClone -t Admin", r"broker-a +0 +3"),
    Command("consumerProgress -g AdminClone -t Admin", "Consume Diff Total: 0"),
    Command("deleteSubGroup -c DefaultCluster -g AdminGroup -r true", "delete subscription group"),
    # Producers
    Command("producerConnection -g AdminSenders -t Admin", r"0001 .* PYTHON", masks=(r"0001 +\S+",)),
    Command("producer -b {broker}", r"AdminSenders", keeps="AdminSenders", masks=(r"clientId=[^,]+",)),
    # Messages
    Command("queryMsgById -t Admin -i {offset_id}", "OffsetID: +{offset_id}"),
    Command("queryMsgByKey -t Admin -k admin-0", "{message_id}", masks=(r"@\d+ *$",)),
    Command("queryMsgByUniqueKey -t Admin -i {message_id}", r"Keys: +\[admin-0\]"),
    Command(
        "queryMsgByUniqueKey -t Admin -i {message_id} -g AdminReaders -d {client_id}",
        "CR_SUCCESS",
        masks=(r"Mills=\d+",),
    ),
    Command("queryMsgByOffset -t Admin -b broker-a -i 1 -o 0", r"Keys: +\[admin-1\]"),
    Command(
        "queryMsgTraceById -i {traced_id}",
        r"(?s)\nPub +Tracers +127\.0\.0\.1 [^\n]* success *\n"
        r".*\nSub +TraceReaders +127\.0\.0\.1 [^\n]* success *\n",
        masks=(NUMBERS,),
    ),
    Command("printMsg -t Admin -d true", "BODY: body-7"),
    Command("printMsgByQueue -t Admin -a broker-a -i 1 -p true -d true -f true", "BODY: body-5"),
    Command("queryCq -t Admin -q 0 -i 0", "physicOffset", masks=(r"physicOffset=\d+",)),
    Command("sendMessage -t AdminListed -p hello -k k -c tag -b broker-a -i 0", "SEND_OK"),
    Command("consumeMessage -t AdminListed -b broker-a -i 0 -o 0", "BODY: hello"),
    Command("checkMsgSendRT -t AdminListed -a 2 -s 8", "(?s)true.*true.*Avg RT", masks=(r"\d+$", r"RT: .*")),
    Command("sendMsgStatus -b broker-a -c 1 -s 8", "sendStatus=SEND_OK", masks=(r"queue(Id|Offset)=\d+",)),
    Command(
        "clusterRT -c DefaultCluster -a 2 -s 8",
        r"DefaultCluster +broker-a .* 2 +0",
        keeps="^#|^Default",
        masks=(r"\d+\.\d\d",),
    ),
    # Brokers
    Command("clusterList", "DefaultCluster .* 0 +{broker}", masks=("V[0-9_]+", NUMBERS)),
    Command("clusterList -m", "DefaultCluster +broker-a", masks=(NUMBERS,)),
    Command(
        "brokerStatus -b {broker}",
        r"(?s)brokerVersionDesc .*: V.*commitLogMaxOffset .*: \d.*putLatency99 ",
        keeps="^(?!scheduleMessageOffset_)",
        masks=(r" *:.*", "_/.*"),
        is_less=True,
    ),
    Command("brokerConsumeStats -b {broker} -o true", r"Diff Total: \d+", keeps="^#Topic"),
    Command(
        "haStatus -b {broker}", r"(?s)#MasterCommitLogMaxOffset\s+[1-9].*#SlaveNum\s+0", masks=(NUMBERS,)
    ),
    Command("updateBrokerConfig -b {broker} -k fileReservedTime -v 71", "update broker config success"),
    Command(
        "getBrokerConfig -b {broker}",
        r"(?m)^fileReservedTime +=  71$",
        keeps="^fileReservedTime|^brokerName",
    ),
    Command("checkRocksdbCqWriteProgress -c DefaultCluster -t Admin", "check doing"),
    Command("deleteExpiredCommitLog -c DefaultCluster", "success"),
    Command("cleanExpiredCQ -c DefaultCluster", "success"),
    Command("cleanUnusedTopic -c DefaultCluster", "success"),
    Command("exportMetadata -c DefaultCluster -f {folder}", "export .*/metadata.json success"),
    Command("exportConfigs -c DefaultCluster -f {folder}", "export .*/configs.json success"),
    Command("exportMetrics -c DefaultCluster -f {folder}", "export .*/metrics.json success"),
    # Name servers
    Command(
        "updateKvConfig -s AdminSpace -k name -v value", "create or update kv config to namespace success"
    ),
    Command("deleteKvConfig -s AdminSpace -k name", "delete kv config from namespace success"),
    Command("updateNamesrvConfig -k orderMessageEnable -v true", "update name server config success"),
    Command("getNamesrvConfig", r"(?m)^orderMessageEnable +=  true$", keeps="^orderMessageEnable"),
    Command("wipeWritePerm -b broker-a", r"wipe write perm of broker\[broker-a\].* OK", masks=(r"OK, \d+",)),
    Command("topicRoute -t Admin", '"perm":4'),
    Command("addWritePerm -b broker-a", r"add write perm of broker\[broker-a\].* OK", masks=(r"OK, \d+",)),
    Command("topicRoute -t Admin", '"perm":6'),
    Command(
        "deleteTopic -c DefaultCluster -t AdminMade", r"delete topic \[AdminMade\] from NameServer success"
    ),
    Command("deleteTopic -c DefaultCluster -t AdminListed", r"delete topic \[AdminListed\] from NameServer"),
]


def compared(command: Command, output: str, values: Mapping[str, str]) -> list[str]:
    """Return the lines of an output that are to be the same at both brokers, masked and sorted."""
    lines = [line for line in output.splitlines() if line.strip() and re.search(command.keeps, line)]
    text = "\n".join(lines).replace("]MessageTrack", "]\nMessageTrack")
    for name in ("folder", "topics", "groups", "broker", "namesrv", "client_id"):
        text = text.replace(values[name], f"<{name}>")
    for mask, instead in MASKS.items():
        text = re.sub(mask, instead, text)
    for mask in command.masks:
        text = re.sub(mask, "<…>", text, flags=re.MULTILINE)
    return sorted(" ".join(line.split()) for line in text.splitlines())
