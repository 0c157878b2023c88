from pathlib import Path

from tests.broker.conftest import Bench, serving
from tests.kit.brokers import QUICK, remove_expired

from cometmq.format.host import pack_host
from cometmq.store import NewMessage
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.headers import CreateTopicHeader, TopicHeader
from cometmq.wire.headers.admin import QueueWritesHeader

HOST = pack_host("127.0.0.1", 10911)


async def change(bench: Bench, topic: str, queues: int) -> None:
    header = CreateTopicHeader(
        topic=topic,
        default_topic="TBW102",
        read_queue_count=queues,
        write_queue_count=queues,
        perm=6,
        filter_type="SINGLE_TAG",
    )
    assert (await bench.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)).code == ResponseCode.SUCCESS


def append_to_unknown(bench: Bench, topic: str, body: bytes = b"") -> None:
    """Append a message to a topic that the broker's tables lack."""
    bench.store.append([NewMessage(topic, 0, body, b"", 0, HOST, HOST)])


async def test_expired_files_are_removed_on_demand(tmp_path: Path) -> None:
    async with serving(tmp_path, QUICK) as bench:
        for _ in range(20):
            await bench.send("T", bytes(900))
        assert bench.store.min_offset == 0
        await remove_expired(bench)
        assert bench.store.min_offset > 0
        assert bench.store.min_queue_offset("T", 0) > 0


async def test_queues_whose_messages_are_gone_are_removed_if_nobody_uses_them(tmp_path: Path) -> None:
    async with serving(tmp_path, QUICK) as bench:
        append_to_unknown(bench, "U")
        append_to_unknown(bench, "%LMQ%a")
        for topic, queue_id in (("T", 0), ("T", 3), ("U", 0), ("V", 0)):
            if topic != "U":
                await bench.send(topic, queue_id=queue_id)
            bench.parts.offsets.commit("cg", topic, queue_id, 1)
        for _ in range(20):
            append_to_unknown(bench, "Busy", bytes(900))
        await change(bench, "T", 2)
        clean = RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE
        assert (await bench.ask(clean)).code == ResponseCode.SUCCESS
        assert len(bench.store.queues()) == 6  # their messages are there
        await remove_expired(bench)
        assert (await bench.ask(clean)).code == ResponseCode.SUCCESS
        assert sorted(bench.store.queues()) == [("%LMQ%a", 0), ("Busy", 0), ("T", 0), ("V", 0)]
        assert not (tmp_path / "consumequeue" / "U").exists()
        assert not (tmp_path / "consumequeue" / "T" / "3").exists()
        committed = {
            place: bench.parts.offsets.committed("cg", *place)
            for place in (("T", 0), ("T", 3), ("U", 0), ("V", 0))
        }
        assert committed == {("T", 0): 1, ("T", 3): None, ("U", 0): None, ("V", 0): 1}
        assert (await bench.send("V")).ext_fields["queueOffset"] == "1"


async def test_queues_of_topics_that_are_gone_are_removed(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        append_to_unknown(bench, "U")
        append_to_unknown(bench, "rmq_sys_x")  # of a broker that had this store before
        append_to_unknown(bench, "%LMQ%$T$a")  # a light queue has no topic
        for topic in ("T", "U"):
            bench.parts.offsets.commit("cg", topic, 0, 1)
        assert (await bench.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == ResponseCode.SUCCESS
        assert bench.store.queues() == [("T", 0), ("rmq_sys_x", 0), ("%LMQ%$T$a", 0)]
        assert bench.parts.offsets.topics_of("cg") == {"T"}
        answer = await bench.ask(RequestCode.GET_TOPIC_CONFIG, TopicHeader("T"))
        assert answer.code == ResponseCode.SUCCESS


async def test_the_older_code_for_expired_files_does_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path, QUICK) as bench:
        asked: list[bool] = []
        bench.store.retention.ask = lambda: asked.append(True)  # type: ignore[method-assign]  # watched here
        for code in (RequestCode.DELETE_EXPIRED_COMMITLOG, RequestCode.TRIGGER_DELETE_FILES):
            assert (await bench.ask(code)).code == ResponseCode.SUCCESS
        assert asked == [True, True]


async def test_no_queue_differs_from_one_in_rocksdb(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(RequestCode.CHECK_ROCKSDB_CQ_WRITE_PROGRESS, QueueWritesHeader("T"))
        assert answer.body == b'{"checkResult":"no queue is in RocksDB: nothing to check","checkStatus":0}'
