"""What brokers tell of themselves: ours has every key that the real one has."""

import asyncio

import pytest
from tests.interop.jvm import Run
from tests.interop.peers import Peer

from cometmq.admin.broker_status import broker_status, runtime_info

pytestmark = pytest.mark.interop

POOLS = ("ack", "litePull", "pull", "query", "send")
KEYS = {
    "EndTransactionQueueSize",
    "EndTransactionThreadPoolQueueCapacity",
    "bootTimestamp",
    "brokerActive",
    "brokerVersionDesc",
    "commitLogDirCapacity",
    "commitLogDiskRatio",
    "commitLogMaxOffset",
    "commitLogMinOffset",
    "consumeQueueDiskRatio",
    "dispatchBehindBytes",
    "dispatchMaxBuffer",
    "earliestMessageTimeStamp",
    "getFoundTps",
    "getMessageEntireTimeMax",
    "getMissTps",
    "getTotalTps",
    "getTransferredTps",
    "msgGetTotalTodayMorning",
    "msgGetTotalTodayNow",
    "msgGetTotalYesterdayMorning",
    "msgPutTotalTodayMorning",
    "msgPutTotalTodayNow",
    "msgPutTotalYesterdayMorning",
    "pageCacheLockTimeMills",
    *(f"{pool}ThreadPoolQueue{what}" for pool in POOLS for what in ("Capacity", "HeadWaitTimeMills", "Size")),
    "putLatency99",
    "putLatency999",
    "putMessageAverageSize",
    "putMessageDistributeTime",
    "putMessageEntireTimeMax",
    "putMessageFailedTimes",
    "putMessageSizeTotal",
    "putMessageTimesTotal",
    "putTps",
    "remainHowManyDataToFlush",
    "remainTransientStoreBufferNumbs",
    "runtime",
    "startAcceptSendRequestTimeStamp",
    "timerCongestNum",
    "timerDequeueTps",
    "timerEnqueueTps",
    "timerOffsetBehind",
    "timerReadBehind",
}
OF_A_PATH = "commitLogDiskRatio_"
OF_A_DELAY_LEVEL = "scheduleMessageOffset_"


def test_the_runtime_info_has_every_key_of_a_real_broker(broker: Peer, run_java: Run) -> None:
    run_java("CreateTopic", broker.namesrv, broker.broker, 4, "Admin")
    run_java("SendKeyed", broker.namesrv, "Admin", "admin", 20)
    info = asyncio.run(runtime_info(broker.broker))
    told = {key for key in info if not key.startswith((OF_A_PATH, OF_A_DELAY_LEVEL))}
    assert KEYS - told == set()
    if broker.name == "rocketmq":
        assert told - KEYS == set()
    pointers = asyncio.run(broker_status(broker.broker)).pointers
    assert pointers["begin"] == 0 and pointers["committed"] == pointers["written"]
    assert pointers["written"] is not None and pointers["written"] > 20 * 100
    print(f"\n{broker.name}: {pointers}", end="")
