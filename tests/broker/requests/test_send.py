import asyncio
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.broker.conftest import Bench, Client, bodies, send_header, serving

from cometmq.format import properties, record
from cometmq.format.message_id import parse_offset_message_id
from cometmq.store.settings import FlushDiskType
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire import batch
from cometmq.wire.batch import BatchMessage
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, SerializeType
from cometmq.wire.headers import SendHeader, SendResponseHeader, fields, parse

V2 = RequestCode.SEND_MESSAGE_V2
ROOT = Path("/disk/store")
SYNC = {"flush_disk_type": FlushDiskType.SYNC_FLUSH}


def stored(bench: Bench, topic: str, queue_id: int = 0) -> list[record.Record]:
    return [record.decode(data) for data in bench.store.get(topic, queue_id, 0).records]


@pytest.mark.parametrize("serialize_type", SerializeType)
async def test_a_message_is_stored_as_it_was_sent_and_the_answer_says_where(
    tmp_path: Path, serialize_type: SerializeType
) -> None:
    async with serving(tmp_path) as bench:
        header = replace(send_header("T", 2, TAGS="TagA", UNIQ_KEY="u1"), flag=7, reconsume_times=3)
        answer = await bench.ask(V2, header, b"hello", serialize_type=serialize_type)
        assert answer.code == ResponseCode.SUCCESS and answer.serialize_type is serialize_type
        where = parse(SendResponseHeader, answer.ext_fields)
        (message,) = stored(bench, "T", 2)
        assert (message.body, message.flag, message.reconsume_times, message.born_time) == (
            b"hello",
            7,
            3,
            1_600_000_000_000,
        )
        assert properties.decode(message.properties) == {
            "TAGS": "TagA",
            "UNIQ_KEY": "u1",
            "MSG_REGION": "DefaultRegion",
            "TRACE_ON": "true",
            "CLUSTER": "DefaultCluster",
        }
        assert (where.queue_id, where.queue_offset, where.transaction_id) == (2, 0, "u1")
        assert (where.region, where.trace_on) == ("DefaultRegion", True)
        offset_id = parse_offset_message_id(where.message_id)
        assert offset_id == (message.store_host, message.physical_offset)


async def test_the_old_form_of_the_header_says_the_same(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        v2 = send_header("T", 1, TAGS="TagA")
        old = SendHeader(*(getattr(v2, name) for name in v2.__struct_fields__))
        answer = await bench.ask(RequestCode.SEND_MESSAGE, old, b"x")
        assert answer.ext_fields["queueId"] == "1"
        assert bodies(bench.store.get("T", 1, 0).records) == [b"x"]


async def test_sends_of_one_read_are_one_batch_and_a_bad_one_harms_no_other(tmp_path: Path) -> None:
    async with serving(tmp_path, {"max_message_size": 10}) as bench:
        sends = [(b"%d" % n if n != 5 else b"x" * 11) for n in range(10)]
        header = send_header("T")
        answers = await asyncio.gather(*(bench.ask_later(V2, header, body) for body in sends))
        assert [answer.code for answer in answers] == [0] * 5 + [ResponseCode.MESSAGE_ILLEGAL] + [0] * 4
        assert "11 bytes: send 1 to 10 (maxMessageSize)" in (answers[5].remark or "")
        assert [answer.ext_fields["queueOffset"] for answer in answers if not answer.code] == [
            str(n) for n in range(9)
        ]
        assert bodies(bench.store.get("T", 0, 0).records) == [body for body in sends if len(body) < 11]


async def test_a_batch_is_stored_as_its_messages(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        members = [
            BatchMessage(b"%d" % n, properties.encode({"UNIQ_KEY": f"u{n}", "TAGS": "TagA"}), n)
            for n in range(3)
        ]
        header = send_header("T", UNIQ_KEY="whole")
        answer = await bench.ask(RequestCode.SEND_BATCH_MESSAGE, header, batch.encode(members))
        where = parse(SendResponseHeader, answer.ext_fields)
        records = stored(bench, "T")
        assert [(r.body, r.properties, r.flag) for r in records] == members
        ids = [parse_offset_message_id(text).physical_offset for text in where.message_id.split(",")]
        assert ids == [r.physical_offset for r in records]
        assert (where.queue_offset, where.transaction_id) == (0, "whole")


async def test_a_oneway_send_is_stored_and_not_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"first")
        bench.connection.oneway(Command(V2, ext_fields=fields(send_header("T")), body=b"oneway"))
        await bench.send("T", b"last")
        assert bodies(bench.store.get("T", 0, 0).records) == [b"first", b"oneway", b"last"]
        assert bench.told.empty()


async def test_a_negative_queue_id_means_any_queue_in_turn(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        answers = [await bench.send("T", queue_id=-1) for _ in range(4)]
        assert {answer.ext_fields["queueId"] for answer in answers} == {"0", "1", "2", "3"}


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"topic": "../x"}, ResponseCode.INVALID_PARAMETER, "only the characters"),
        ({"topic": "a" * 128}, ResponseCode.INVALID_PARAMETER, "at most 127"),
        ({"topic": ""}, ResponseCode.INVALID_PARAMETER, "empty"),
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, ResponseCode.NO_PERMISSION, "broker's own"),
        ({"default_topic": "none"}, ResponseCode.TOPIC_NOT_EXIST, "autoCreateTopicEnable"),
        ({"queue_id": 4}, ResponseCode.INVALID_PARAMETER, "no queue 4: it has 4"),
        ({"sys_flag": 4}, ResponseCode.MESSAGE_ILLEGAL, "TRAN_MSG is not true"),
        ({"properties": "TRAN_MSG\x01true\x02"}, ResponseCode.MESSAGE_ILLEGAL, "without property PGROUP"),
        ({"properties": "TIMER_DELAY_SEC\x01x\x02"}, ResponseCode.MESSAGE_ILLEGAL, "TIMER_DELAY_SEC"),
        ({"properties": "a\x01" + "x" * 32767 + "\x02"}, ResponseCode.MESSAGE_ILLEGAL, "limit is 32767"),
        ({"topic": "%RETRY%"}, ResponseCode.SYSTEM_ERROR, "group is empty"),
        ({"batch": True}, ResponseCode.SYSTEM_ERROR, "batch message at 0"),
        ({"batch": True, "properties": "DELAY\x013\x02"}, ResponseCode.MESSAGE_ILLEGAL, "one by one"),
    ],
)
async def test_what_cannot_be_stored_is_refused_with_rocketmqs_code_and_the_remedy(
    tmp_path: Path, changes: dict[str, Any], code: ResponseCode, says: str
) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(V2, replace(send_header("T"), **changes), b"x")
        assert (answer.code, says in (answer.remark or "")) == (code, True), answer
        assert bench.store.written_offset == 0
        assert (await bench.send("T")).code == ResponseCode.SUCCESS


async def test_a_delay_that_is_none_is_no_delay(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for delay in ("0", "-1"):
            assert (await bench.send("T", DELAY=delay)).code == ResponseCode.SUCCESS


async def test_an_empty_body_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        assert (await bench.send("T", b"")).code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_header_field_that_is_missing_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(V2)
        assert answer.code == ResponseCode.SYSTEM_ERROR and "missing" in (answer.remark or "")


async def test_under_sync_flush_the_answer_means_that_the_disk_has_it(tmp_path: Path) -> None:
    async with serving(tmp_path, SYNC) as bench:
        answers = await asyncio.gather(*(bench.send("T", b"%d" % n) for n in range(20)))
        assert {answer.code for answer in answers} == {ResponseCode.SUCCESS}
        assert bench.store.flushed_offset == bench.store.written_offset
        assert len(bench.store.get("T", 0, 0).records) == 20


async def test_who_does_not_want_to_wait_for_the_disk_is_answered_at_once(tmp_path: Path) -> None:
    async with serving(tmp_path, SYNC) as bench:
        slow = bench.ask_later(V2, send_header("T", WAIT="true"), b"waits")
        fast = bench.ask_later(V2, send_header("T", WAIT="false"), b"does not")
        assert (await fast).code == ResponseCode.SUCCESS
        assert (await slow).code == ResponseCode.SUCCESS


async def test_a_full_disk_refuses_until_there_is_room_again_and_loses_nothing() -> None:
    disk = MemoryDisk()
    async with serving(ROOT, files=disk) as bench:
        acknowledged = []
        for n in range(40):
            if n == 10:
                disk.space_bytes = 0
            if n == 20:
                disk.space_bytes = 2**40
            body = b"%d" % n * 500
            answer = await bench.send("T", body)
            if answer.code == ResponseCode.SUCCESS:
                acknowledged.append(body)
            else:
                assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
                assert "free some space" in (answer.remark or "")
        assert 30 <= len(acknowledged) < 40
        assert bodies(bench.store.get("T", 0, 0).records) == acknowledged[:32]
        assert bench.store.max_queue_offset("T", 0) == len(acknowledged)


async def test_a_full_disk_creates_no_topic() -> None:
    disk = MemoryDisk()
    async with serving(ROOT, files=disk) as bench:
        disk.space_bytes = 0
        assert (await bench.send("T")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert bench.parts.topics.find("T") is None
        disk.space_bytes = 2**40
        assert (await bench.send("T")).code == ResponseCode.SUCCESS


async def test_a_failed_sync_is_told_and_after_it_nothing_is_taken() -> None:
    disk = MemoryDisk()
    async with serving(ROOT, SYNC, files=disk) as bench:
        await bench.send("T", b"safe")
        disk.fail_sync = True
        answer = await bench.send("T", b"unsure")
        assert answer.code == ResponseCode.FLUSH_DISK_TIMEOUT
        assert answer.ext_fields["queueOffset"] == "1", "it is stored, only not surely"
        assert "check the disk" in (answer.remark or "")
        assert bodies(bench.store.get("T", 0, 0).records) == [b"safe"], "nobody reads what is not safe"
        assert (await bench.send("T")).code == ResponseCode.SERVICE_NOT_AVAILABLE


def test_what_was_acknowledged_under_sync_flush_outlives_a_loss_of_power() -> None:
    async def first(disk: MemoryDisk) -> MemoryDisk:
        async with serving(ROOT, SYNC, files=disk) as bench:
            await asyncio.gather(*(bench.send("T", b"%d" % n) for n in range(30)))
            return disk.after_power_loss()

    async def second(disk: MemoryDisk) -> None:
        async with serving(ROOT, SYNC, files=disk) as bench:
            stored = bodies(bench.store.get("T", 0, 0).records)
            assert sorted(map(int, stored)) == list(range(30))
            assert bench.parts.topics.find("T") is not None

    asyncio.run(second(asyncio.run(first(MemoryDisk()))))


async def test_a_closed_store_is_not_available(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T")
        bench.store.close()
        answers = await asyncio.gather(bench.send("T"), bench.send("T"))
        assert {answer.code for answer in answers} == {ResponseCode.SERVICE_NOT_AVAILABLE}


async def test_many_clients_share_a_queue_without_gap_or_repeat(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        clients = [await Client.open(bench.address) for _ in range(4)]
        sends = [
            clients[n % 4].ask_later(V2, send_header("T"), b"%d" % n, serialize_type=SerializeType(n % 2))
            for n in range(200)
        ]
        offsets = [int((await send).ext_fields["queueOffset"]) for send in sends]
        assert sorted(offsets) == list(range(200))
        for client in clients:
            await client.connection.close()


@pytest.mark.parametrize(
    "named",
    [
        {"DELAY": "4Pinpoint"},
        {"DELAY": "abc"},
        {"DELAY": " 3"},
        {"DELAY": "1.0"},
        {"DELAY": "2147483648"},
        {"DELAY": "2", "TIMER_DELIVER_MS": "soon"},
        {"TIMER_DELAY_SEC": "1e1"},
        {"TRAN_MSG": "true", "PGROUP": "pg", "CHECK_IMMUNITY_TIME_IN_SECONDS": "1.5"},
        {"TRAN_MSG": "true", "PGROUP": "pg", "TRANSACTION_CHECK_TIMES": "many"},
        {"TRAN_MSG": "true", "PGROUP": "pg", "DELAY": "x"},
    ],
)
async def test_a_property_that_is_no_number_is_refused_with_its_value(
    tmp_path: Path, named: dict[str, str]
) -> None:
    async with serving(tmp_path) as bench:
        header = replace(send_header("T"), properties=properties.encode({"UNIQ_KEY": "u"} | named).decode())
        answer = await bench.ask(V2, header, b"x")
        name, value = list(named.items())[-1]
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert f"property {name} = {value!r}: give a whole number" in (answer.remark or "")


@pytest.mark.parametrize(("delay", "level"), [("0" * 19 + "1", 1), ("+2", 2), ("\u0663", 3), ("99", 18)])
async def test_a_delay_is_read_as_java_reads_it(tmp_path: Path, delay: str, level: int) -> None:
    async with serving(tmp_path) as bench:
        answer = await bench.ask(V2, send_header("T", UNIQ_KEY="u", DELAY=delay), b"x")
        assert answer.code == ResponseCode.SUCCESS
        assert bench.store.max_queue_offset("SCHEDULE_TOPIC_XXXX", level - 1) == 1


async def test_a_half_message_that_could_not_be_committed_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        header = send_header("T", UNIQ_KEY="u", TRAN_MSG="true", PGROUP="pg", TIMER_DELAY_SEC="999999999")
        answer = await bench.ask(V2, header, b"x")
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "timerMaxDelaySec" in (answer.remark or "")


@pytest.mark.parametrize("named", [{"DELAY": "3"}, {"TIMER_DELAY_SEC": "10"}, {"TRAN_MSG": "true"}])
async def test_a_batch_takes_no_message_that_asks_to_wait(tmp_path: Path, named: dict[str, str]) -> None:
    members = [
        batch.BatchMessage(b"x", properties.encode({"UNIQ_KEY": "u"} | given)) for given in ({}, named)
    ]
    async with serving(tmp_path) as bench:
        header = replace(send_header("T", UNIQ_KEY="b"), batch=True)
        answer = await bench.ask(RequestCode.SEND_BATCH_MESSAGE, header, batch.encode(members))
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "send them one by one" in (answer.remark or "")
        plain = [batch.BatchMessage(b"x", properties.encode({"UNIQ_KEY": "u", "DELAY": "0"}))]
        answer = await bench.ask(RequestCode.SEND_BATCH_MESSAGE, header, batch.encode(plain))
        assert answer.code == ResponseCode.SUCCESS
