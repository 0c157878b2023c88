"""Spark reads what a Java consumer reads, from either broker, and is seen by either side's tools."""

import asyncio
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from tests.cli import conftest as cli
from tests.interop.jvm import Run
from tests.interop.patience import wait_until
from tests.interop.peers import Peer

from cometmq import Message
from cometmq.admin.topics import TopicAdmin
from cometmq.blocking import Producer
from cometmq.errors import SettingsError, StoreDamaged
from cometmq.format.sys_flag import COMPRESSED
from cometmq.spark.live.cluster import Cluster
from cometmq.spark.live.options import parse
from cometmq.spark.source import RocketMQSource

pytestmark = pytest.mark.interop

COUNT, QUEUES = 120, 4
WAITING = 40

cometmq = cli.cometmq


def test_spark_gives_the_rows_that_a_java_consumer_gets(broker: Peer, run_java: Run) -> None:
    run_java("CreateTopic", broker.namesrv, broker.broker, QUEUES, "SparkRows")
    run_java("SendKeyed", broker.namesrv, "SparkRows", "row", COUNT)
    expected = [line for line in run_java("ReadAll", broker.namesrv, "SparkRows") if "keys" in line]
    for line in expected:
        assert line.pop("storeSize")  # Spark has no such column
        line["sysFlag"] &= ~COMPRESSED  # Java's client takes the bit off with the compression
    for records_max in ("50", "100000"):
        source = RocketMQSource(
            {"namesrv": broker.namesrv, "subscribe": "SparkRows", "maxRecordsPerPartition": records_max}
        )
        reader = source.reader(source.schema())
        parts = reader.partitions()
        rows = rows_of(reader, parts)
        assert [as_java_tells_it(row) for row in rows] == expected
        print(f"\n{broker.name}: {COUNT} rows in {len(parts)} parts", end="")
    check_by_time(broker, "SparkRows", rows)


def check_by_time(broker: Peer, topic: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Begin each queue at the time of its middle message, and behind its last one."""
    times: dict[int, list[int]] = {}
    for row in rows:
        times.setdefault(row["queue_id"], []).append(round(row["store_time"].timestamp() * 1000))
    middles = {queue_id: of_queue[len(of_queue) // 2] for queue_id, of_queue in times.items()}
    ends = {queue_id: of_queue[-1] + 1 for queue_id, of_queue in times.items()}
    expected = {
        queue_id: [next(at for at, time in enumerate(of_queue) if time >= middles[queue_id]), len(of_queue)]
        for queue_id, of_queue in times.items()
    }
    begun = begins(broker, topic, middles)
    late = begins(broker, topic, ends, startingOffsetsByTimestampStrategy="latest")
    assert {queue_id: [begun[queue_id], late[queue_id]] for queue_id in times} == expected
    with pytest.raises(SettingsError, match="no message was stored so late"):
        begins(broker, topic, ends)


def begins(broker: Peer, topic: str, times: Mapping[int, int], **options: str) -> dict[int, int]:
    """Return where a stream begins in each queue that begins by its time."""
    given = {"namesrv": broker.namesrv, "subscribe": topic, **options}
    source = RocketMQSource(given | {"startingOffsetsByTimestamp": json.dumps({topic: times})})
    stream = source.streamReader(source.schema())
    try:
        (by_queue,) = stream.initialOffset()[topic].values()
    finally:
        stream.stop()
    return {int(queue_id): offset for queue_id, offset in by_queue.items()}


def test_the_lag_of_a_stream_is_seen(
    broker: Peer, run_java: Run, cometmq: cli.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, group = "SparkLag", "SparkPipeline"
    run_java("CreateTopic", broker.namesrv, broker.broker, QUEUES, topic)
    send(broker, topic, COUNT)
    source = RocketMQSource(
        {"namesrv": broker.namesrv, "subscribe": topic, "startingOffsets": "earliest", "group": group}
    )
    stream = source.streamReader(source.schema())
    try:
        read_batch(stream, stream.initialOffset())
        until_known(broker, f"%RETRY%{group}")
        send(broker, topic, WAITING)
        commands = tmp_path / "commands"
        commands.write_text(f"consumerProgress -g {group}")
        (told,) = run_java("Mqadmin", broker.namesrv, commands)
        lines = [line.split() for line in told["output"].splitlines() if line.startswith(topic)]
        assert len(lines) == QUEUES, told["output"]
        assert (sum(int(line[4]) for line in lines), sum(int(line[5]) for line in lines)) == (COUNT, WAITING)
        monkeypatch.setenv("NAMESRV_ADDR", broker.namesrv)
        (ours,) = cometmq("lag", group, "--json").values
        assert [(sum(one[name] for one in ours["queues"])) for name in ("committed", "lag")] == [
            COUNT,
            WAITING,
        ]
    finally:
        stream.stop()
    print(f"\n{broker.name}: {WAITING} behind, both say", end="")


def test_a_topic_that_is_created_again_and_grows_longer_is_noticed(broker: Peer) -> None:
    topic = "SparkAnew"
    asyncio.run(make(broker, topic))
    send(broker, topic, COUNT)
    source = RocketMQSource({"namesrv": broker.namesrv, "subscribe": topic, "startingOffsets": "earliest"})
    stream = source.streamReader(source.schema())
    try:
        start = stream.initialOffset()
        end = stream.latestOffset(start, stream.getDefaultReadLimit())
        while (
            len(rows_of(stream, stream.partitions(start, end))) < COUNT
        ):  # a Java broker answers sends early
            end = stream.latestOffset(start, stream.getDefaultReadLimit())
        asyncio.run(make(broker, topic, again=True))
        send(broker, topic, 3 * COUNT)
        until_known(broker, topic)
        with pytest.raises(StoreDamaged, match=f"topic {topic}, broker .* deleted and created again"):
            until_moved(stream, end)
    finally:
        stream.stop()


def until_moved(stream: DataSourceStreamReader, start: dict[str, Any]) -> None:
    """Ask for news until there are some."""
    while stream.latestOffset(start, stream.getDefaultReadLimit()) == start:
        pass


async def make(broker: Peer, topic: str, *, again: bool = False) -> None:
    """Create a topic, having deleted it if it is created again."""
    async with TopicAdmin(broker.namesrv) as admin:
        if again:
            await admin.delete(topic)
        await admin.create(topic, queues=QUEUES)


def read_batch(stream: DataSourceStreamReader, start: dict[str, Any]) -> None:
    """Plan a micro-batch as Spark does, read it, and ask for the next one."""
    end = stream.latestOffset(start, stream.getDefaultReadLimit())
    assert len(rows_of(stream, stream.partitions(start, end))) == COUNT
    stream.latestOffset(end, stream.getDefaultReadLimit())


def rows_of(
    reader: DataSourceReader | DataSourceStreamReader, parts: Sequence[InputPartition]
) -> list[dict[str, Any]]:
    batches = [batch for part in parts for batch in reader.read(part)]
    return [row for batch in batches if isinstance(batch, pa.RecordBatch) for row in batch.to_pylist()]


def until_known(broker: Peer, topic: str) -> None:
    """Wait until the name server knows a topic: brokers tell it of new ones soon."""
    with Cluster(parse({"namesrv": broker.namesrv, "subscribe": topic})) as cluster:
        wait_until(cluster.queues)


def as_java_tells_it(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row's columns under the names and in the forms of ``ReadAll.java``."""
    return {
        "topic": row["topic"],
        "queueId": row["queue_id"],
        "queueOffset": row["queue_offset"],
        "physicalOffset": row["physical_offset"],
        "messageId": row["unique_id"],
        "offsetMessageId": row["offset_id"],
        "tags": row["tags"],
        "keys": " ".join(row["keys"]),
        "bodySha1": hashlib.sha1(row["body"]).hexdigest(),
        "bodyCrc": row["body_crc"],
        "flag": row["flag"],
        "sysFlag": row["sys_flag"] & ~COMPRESSED,
        "bornTime": round(row["born_time"].timestamp() * 1000),
        "bornHost": row["born_host"].rpartition(":")[0],
        "storeTime": round(row["store_time"].timestamp() * 1000),
        "storeHost": "/" + row["store_host"],
        "reconsumeTimes": row["reconsume_times"],
        "properties": dict(row["properties"]),
    }


def send(broker: Peer, topic: str, count: int) -> None:
    with Producer(broker.namesrv) as producer:
        producer.send_many(Message(topic, b"%d" % number) for number in range(count))
