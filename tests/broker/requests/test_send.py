"""Sends as frames and as commands: stored, counted and answered in the same way, whoever encodes them."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.broker.conftest import SYNC, Bench, Client, GatedDisk, bodies, pull_header, send_header, serving
from tests.broker.desk import ROOT, TOPICS, USUAL, Desk, Wire, binary_frame, both, desk, json_frame
from tests.kit.send_frames import BATCH, frames, spelled

from cometmq import kernels
from cometmq.errors import StoreNotWritable
from cometmq.format import properties, record
from cometmq.format.message_id import parse_offset_message_id
from cometmq.kernels import plain
from cometmq.net.server import Session
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire import batch, json_header
from cometmq.wire.batch import BatchMessage
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import ONEWAY_FLAG, Command, SerializeType, encode
from cometmq.wire.headers import SendResponseHeader, fields, parse

V2 = RequestCode.SEND_MESSAGE_V2
FRAMES: list[Callable[..., bytes]] = [json_frame, binary_frame]
MIB = 1 << 20


@pytest.fixture(params=["plain", "compiled"])
def body(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Encode sends by the plain operation, then by the compiled one; provide which."""
    kernels.load()
    if request.param == "plain":
        monkeypatch.setattr(kernels.loading, "ops", plain)
    return str(request.param)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.usefixtures("body")
async def test_usual_sends_and_batches_give_what_they_give_as_commands(frame: Callable[..., bytes]) -> None:
    def members(first: int, count: int) -> bytes:
        return batch.encode(
            BatchMessage(b"x" * 9, b"UNIQ_KEY\x01K%d\x02WAIT\x01true\x02" % number, number)
            for number in range(first, first + count)
        )

    def one(read: int, n: int) -> bytes:
        changes = {"b": TOPICS[n % 3], "e": str(n % 4), "i": f"UNIQ_KEY\x01K{read}x{n}\x02WAIT\x01true\x02"}
        flag, opaque = ONEWAY_FLAG if n == 5 else 0, read * 100 + n
        if n % 2:
            return frame(USUAL | changes, opaque, b"%d" % n * 20, flag=flag)
        return frame(
            USUAL | changes | {"m": "true"}, opaque, members(opaque, 1 + n % 5), code=BATCH, flag=flag
        )

    reads = [b"".join(one(read, n) for n in range(read)) for read in (1, 3, 26, 64)]
    commands, rows, taken = await both(reads, mapped_file_size_commit_log=MIB)
    assert commands == rows
    assert taken == sum(map(len, reads)), "none of them is rare"


@pytest.mark.usefixtures("body")
async def test_of_usual_sends_only_the_first_record_of_each_commitlog_file_is_rare() -> None:
    reads = [b"".join(json_frame(USUAL, read * 100 + n, b"x" * 400) for n in range(40)) for read in range(3)]
    commands, rows, taken = await both(reads)
    assert commands == rows
    assert 0.95 * sum(map(len, reads)) < taken < sum(map(len, reads))


async def test_a_rare_send_is_decoded_once_where_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    decode = json_header.decode

    def seen(header: bytes, body: bytes) -> Command:
        decoded.append(header)
        return decode(header, body)

    monkeypatch.setattr(kernels.loading, "ops", plain)
    with desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        made.read(json_frame(USUAL, 1))
        await made.parts.topics.settled()
        await asyncio.sleep(0)
        monkeypatch.setattr(json_header, "decode", seen)
        rare = json_frame(USUAL | {"i": "DELAY\x011\x02" + USUAL["i"]}, 2)
        before = made.parts.rates.rare_sends
        made.read(json_frame(USUAL, 1) + rare + rare + json_frame(USUAL, 3))
        assert made.parts.rates.rare_sends == before + 2
        assert sum(b'"opaque":2' in header for header in decoded) == 2


@pytest.mark.usefixtures("body")
async def test_a_batch_is_usual_however_many_reads_bring_it() -> None:
    members = batch.encode([BatchMessage(bytes(1000), b"")] * 300)
    frame = json_frame(USUAL | {"m": "true"}, 7, members, code=BATCH)
    cuts = [0, 10, 5_000, 100_000, 200_000, len(frame) - 1, len(frame) + 3]
    reads = [(frame + frame[:9])[begin:end] for begin, end in pairwise(cuts)] + [frame[3:]]
    sizes: dict[str, Any] = {"mapped_file_size_commit_log": MIB, "max_message_size": MIB}
    commands, rows, taken = await both(reads, **sizes)
    assert commands == rows
    assert taken == 2 * len(frame)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.usefixtures("body")
async def test_sends_with_an_idempotence_key_are_rare_and_keep_their_place(
    frame: Callable[..., bytes],
) -> None:
    def batch_of(opaque: int, *keys: str) -> bytes:
        members = [
            BatchMessage(b"x" * 9, b"UNIQ_KEY\x01K\x02WAIT\x01true\x02" + key.encode()) for key in keys
        ]
        return frame(
            USUAL | {"i": "UNIQ_KEY\x01B\x02", "m": "true"}, opaque, batch.encode(members), code=BATCH
        )

    usual = frame(USUAL, 1), batch_of(2, "", ""), frame(USUAL, 3)
    keyed = (
        frame(USUAL | {"i": USUAL["i"] + "IDEMPOTENCE_KEY\x01k\x02"}, 4),
        batch_of(5, "", "", "IDEMPOTENCE_KEY\x01l\x02"),
        batch_of(6, "IDEMPOTENCE_KEY\x01k\x02", "IDEMPOTENCE_KEY\x01l\x02", ""),
    )
    reads = [
        b"".join(usual),
        keyed[0] + b"".join(usual),
        keyed[1] + keyed[2] + usual[0],
        b"".join(usual) + keyed[1],
    ]
    commands, rows, taken = await both(reads)
    assert commands == rows
    assert commands.counts[0] == 2 * 4 * len(TOPICS) + 4 + (1 + 4) + (3 + 1 + 1) + (4 + 2)
    assert taken == 3 * len(b"".join(usual)) + len(usual[0])


@given(
    st.lists(frames | spelled, min_size=1, max_size=12),
    st.lists(st.integers(0, 4_000), max_size=3),
    st.sampled_from([b"", b"", b"\0\0\0\3"]) | st.binary(max_size=20),
    st.sampled_from([{}, SYNC]),
    st.sampled_from(["plain", "compiled"]),
)
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
async def test_any_frames_give_what_they_give_as_commands(
    drawn: list[bytes], cuts: list[int], garbage: bytes, changes: dict[str, Any], body: str
) -> None:
    data = b"".join(drawn)
    ends = sorted(cut % (len(data) + 1) for cut in cuts)
    reads = [data[begin:end] for begin, end in zip([0, *ends], [*ends, len(data)], strict=True)]
    chosen = plain if body == "plain" else kernels.load()
    with patch.object(kernels.loading, "ops", chosen):
        commands, rows, taken = await both([*reads, garbage], topics=["T", "U"], **changes)
    event(f"encoded: {taken > 0}")
    assert commands == rows


async def test_sends_are_counted_by_the_body_that_encodes_them_and_rare_ones_by_themselves() -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk(), mapped_file_size_commit_log=MIB) as made:
        rates = made.parts.rates
        before, rare = rates.send_rows["compiled"], rates.rare_sends
        with patch.object(kernels.loading, "ops", plain):
            made.read(json_frame(USUAL) * 2)
        members = batch.encode([BatchMessage(b"x", b"")] * 5)
        made.read(json_frame(USUAL | {"m": "true"}, body=members, code=BATCH))
        assert (rates.send_rows["plain"], rates.send_rows["compiled"] - before) == (2, 1)
        made.read(json_frame(USUAL | {"i": "DELAY\x011\x02"}) + json_frame(USUAL | {"b": "New"}))
        assert rates.rare_sends - rare == 2
        made.read(json_frame(USUAL | {"b": "no/topic"}))
        assert (rates.rare_sends - rare, rates.refused.total) == (2, 1)


def frames_of(count: int, first: int = 0) -> bytes:
    """Build usual sends to the queues of TopicA in turn."""
    return b"".join(json_frame(USUAL | {"e": str(n % 4)}, first + n) for n in range(count))


def answers(made: Desk) -> list[Command]:
    data, made.wire.data = made.wire.data, b""
    return FrameReader().receive_data(data)


@pytest.mark.usefixtures("body")
async def test_a_held_pull_is_answered_when_its_message_comes() -> None:
    with desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        answers(made)
        pull = fields(pull_header("TopicA", 2, wait_ms=10_000, queue_id=1))
        made.read(encode(Command(RequestCode.PULL_MESSAGE, 99, ext_fields=pull)))
        assert answers(made) == [] and made.parts.pulls.held_count == 1
        made.bulk.taken = 0
        made.read(data := frames_of(3))
        assert made.bulk.taken == len(data)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        found = answers(made)
        assert [answer.opaque for answer in found] == [0, 1, 2, 99]
        assert bodies(found[-1]) == [b"body"] and made.parts.pulls.held_count == 0


@pytest.mark.usefixtures("body")
async def test_a_full_disk_refuses_frames_too_and_sending_goes_on_when_there_is_space() -> None:
    disk = MemoryDisk()
    with desk(ROOT, bulk=True, files=disk, mapped_file_size_commit_log=MIB) as made:
        answers(made)
        disk.space_bytes = 0
        made.read(frames_of(50))
        refused = answers(made)
        assert {answer.code for answer in refused} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert len(refused) == 50 and "disk full" in (refused[0].remark or "")
        disk.space_bytes = 1 << 40
        made.read(frames_of(4, 50))
        assert [answer.ext_fields["queueOffset"] for answer in answers(made)] == ["2"] * 4


@pytest.mark.usefixtures("body")
async def test_a_topic_that_is_deleted_and_made_again_begins_anew() -> None:
    with desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        delete = Command(RequestCode.DELETE_TOPIC_IN_BROKER, 7, ext_fields={"topic": "TopicA"})
        answers(made)
        made.read(frames_of(8) + encode(delete) + frames_of(8, 10))
        offsets = [answer.ext_fields.get("queueOffset") for answer in answers(made)]
        assert offsets == ["2"] * 4 + ["3"] * 4 + [None] + ["0"] * 4 + ["1"] * 4
        made.read(frames_of(4))
        assert [answer.ext_fields["queueOffset"] for answer in answers(made)] == ["2"] * 4


@pytest.mark.usefixtures("body")
async def test_a_new_topic_lets_the_others_be() -> None:
    with desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        made.read(json_frame(USUAL | {"b": "New"}))
        made.bulk.taken = 0
        for topic in [*TOPICS, "New"]:
            frame = json_frame(USUAL | {"b": topic})
            made.read(frame)
            assert made.bulk.taken == len(frame)
            made.bulk.taken = 0


@pytest.mark.usefixtures("body")
async def test_a_topic_that_has_changed_is_judged_anew() -> None:
    with desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        config = made.parts.topics.find("TopicA")
        assert config is not None
        made.parts.topics.put(replace(config, read_queue_count=1, write_queue_count=1))
        made.read(json_frame(USUAL | {"e": "3"}))
        made.read(json_frame(USUAL | {"e": "0"}))
        codes = [answer.code for answer in FrameReader().receive_data(made.wire.data)]
        assert codes[-2:] == [ResponseCode.INVALID_PARAMETER, ResponseCode.SUCCESS]


@pytest.mark.usefixtures("body")
async def test_where_an_append_fails_all_that_is_left_of_the_read_is_answered_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise KeyError("a secret")

    files = MemoryDisk()
    with desk(ROOT, bulk=True, files=files) as made:
        before, made.wire.data = made.store.written_offset, b""
        reads = b"".join(json_frame(USUAL, opaque) for opaque in range(3))
        with monkeypatch.context() as patch:
            patch.setattr(made.store._log, "_write", fail)
            made.read(reads)
        answers = FrameReader().receive_data(made.wire.data)
        assert [(one.opaque, one.code) for one in answers] == [
            (opaque, ResponseCode.SYSTEM_ERROR) for opaque in range(3)
        ]
        assert "KeyError" in (answers[0].remark or "") and not made.wire.is_closed
        assert made.store.written_offset == before
        made.wire.data = b""
        made.read(reads)
        result = made.result(ROOT, files)
        assert [answer.code for answer in FrameReader().receive_data(made.wire.data)] == 3 * [0]
        assert result.next_offsets["TopicA", 0] == 5  # no gap: what failed has taken none
    assert any(record.exc_info for record in caplog.records)


@pytest.mark.usefixtures("body")
async def test_under_sync_flush_usual_sends_are_answered_and_readable_when_they_are_on_the_disk() -> None:
    disk = GatedDisk()
    with desk(ROOT, bulk=True, files=disk, **SYNC) as made:
        await made.on_disk()
        answers(made)
        made.bulk.taken = 0
        disk.gate.clear()
        made.read(data := frames_of(8))
        assert made.bulk.taken == len(data)
        assert answers(made) == [] and made.store.max_queue_offset("TopicA", 0) == 2
        disk.gate.set()
        await made.on_disk()
        assert [answer.opaque for answer in answers(made)] == list(range(8))
        assert made.store.max_queue_offset("TopicA", 0) == 4


@pytest.mark.usefixtures("body")
async def test_usual_sends_whose_sync_fails_are_told_that_they_are_stored_but_may_be_lost() -> None:
    disk = GatedDisk()
    with desk(ROOT, bulk=True, files=disk, **SYNC) as made:
        await made.on_disk()
        answers(made)
        disk.gate.clear()
        made.read(frames_of(3))
        disk.fails = True
        disk.gate.set()
        with pytest.raises(StoreNotWritable):
            await made.on_disk()
        await asyncio.sleep(0)
        told = answers(made)
        assert [answer.code for answer in told] == [ResponseCode.FLUSH_DISK_TIMEOUT] * 3
        assert "sync failed" in (told[0].remark or "") and told[0].ext_fields["queueOffset"] == "2"


@pytest.mark.parametrize("changes", [{}, SYNC], ids=["async", "sync"])
@pytest.mark.usefixtures("body")
async def test_what_many_connections_send_in_a_turn_is_stored_at_once_and_answered_to_each(
    changes: dict[str, Any],
) -> None:
    with desk(ROOT, bulk=True, files=MemoryDisk(), **changes, mapped_file_size_commit_log=MIB) as made:
        await made.on_disk()
        wires = [Wire(host) for host in ("10.0.0.7", "::1", "10.0.0.8")]
        sessions = [Session(made.server.shared) for _ in wires]
        for session, wire in zip(sessions, wires, strict=True):
            session.connection_made(wire)  # type: ignore[arg-type]  # it is one as far as a session cares
        made.bulk.taken = 0
        get = encode(Command(RequestCode.GET_MAX_OFFSET, 99, ext_fields={"topic": "TopicA", "queueId": "0"}))
        first = made.store.written_offset
        sessions[0].data_received(frames_of(2))
        sessions[1].data_received(json_frame(USUAL, 2) + get + json_frame(USUAL, 3))
        sessions[2].data_received(json_frame(USUAL, 4)[:-1])
        made.server.turn.handle()
        sessions[2].data_received(b"y" + json_frame(USUAL, 5))
        made.server.turn.handle()
        await made.on_disk()
        await asyncio.sleep(0)
        told = [FrameReader().receive_data(wire.data) for wire in wires]
        assert [sorted(one.opaque for one in each) for each in told] == [[0, 1], [2, 3, 99], [4, 5]]
        assert made.bulk.taken == len(frames_of(2)) + 4 * len(json_frame(USUAL, 2))
        hosts = []
        while first < made.store.written_offset:
            data = made.store.read_record(first)
            assert data is not None
            hosts.append(record.decode(data).born_host)
            first += len(data)
        assert hosts == [wires[n].packed for n in (0, 0, 1, 1, 2, 2)]
        for session in sessions:
            made.server.remove(session)


@pytest.mark.parametrize("setting", ["enable_consume_queue_ext", "enabled_append_prop_crc"])
async def test_in_a_store_with_extended_queues_or_the_property_crc_all_sends_are_rare(setting: str) -> None:
    reads = [json_frame(USUAL, number) for number in range(3)]
    changes: dict[str, Any] = {setting: True}
    commands, rows, taken = await both(reads, **changes)
    assert commands == rows
    assert taken == 0


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


async def test_a_large_batch_whose_sync_fails_is_told_so_like_the_sends_beside_it() -> None:
    disk = MemoryDisk()
    async with serving(ROOT, SYNC | {"mapped_file_size_commit_log": 1 << 22}, files=disk) as bench:
        await bench.send("T")
        disk.fail_sync = True
        members = batch.encode([BatchMessage(b"", b"")] * 20_000)
        large = bench.ask_later(RequestCode.SEND_BATCH_MESSAGE, send_header("T"), members)
        small = bench.ask_later(V2, send_header("T"), b"beside it")
        told = await asyncio.gather(large, small)
        assert [answer.code for answer in told] == [ResponseCode.FLUSH_DISK_TIMEOUT] * 2
        assert told[0].ext_fields["msgId"].count(",") == 19_999


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
