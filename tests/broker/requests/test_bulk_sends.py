"""The bulk path gives the answers and the bytes on the disk that the plain path gives, for any reads."""

import asyncio
import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.broker.conftest import SYNC, GatedDisk, pull_header
from tests.broker.conftest import bodies as bodies_of
from tests.broker.desk import (
    ROOT,
    TOPICS,
    USUAL,
    V2,
    Desk,
    Wire,
    binary_frame,
    both,
    desk,
    framed,
    json_frame,
)

from cometmq import kernels
from cometmq.errors import StoreNotWritable
from cometmq.format.record import decode
from cometmq.net.server import Session
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire import batch
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import ONEWAY_FLAG, Command, encode
from cometmq.wire.headers import fields as fields_of

FRAMES: list[Callable[..., bytes]] = [json_frame, binary_frame]


@pytest.mark.parametrize("frame", FRAMES)
async def test_what_the_java_client_sends_goes_in_bulk(frame: Callable[..., bytes]) -> None:
    reads = [
        b"".join(
            frame(
                USUAL
                | {"b": TOPICS[n % 3], "e": str(n % 4), "i": f"UNIQ_KEY\x01K{read}x{n}\x02WAIT\x01true\x02"},
                read * 100 + n,
                b"%d" % n * 20,
                flag=ONEWAY_FLAG if n == 5 else 0,
            )
            for n in range(read)
        )
        for read in (1, 3, 26, 64)
    ]
    plain, bulk, taken = await both(reads)
    assert plain == bulk
    assert taken > 0.95 * sum(map(len, reads))  # all but the first record of each CommitLog file


@pytest.mark.parametrize("frame", FRAMES)
async def test_the_batches_of_the_java_client_go_in_bulk(frame: Callable[..., bytes]) -> None:
    def body(first: int, count: int) -> bytes:
        return batch.encode(
            batch.BatchMessage(b"x" * 9, b"UNIQ_KEY\x01K%d\x02WAIT\x01true\x02" % number, number)
            for number in range(first, first + count)
        )

    reads = [
        b"".join(
            frame(
                USUAL | {"b": TOPICS[n % 3], "e": str(n % 4), "i": f"UNIQ_KEY\x01B{n}\x02", "m": "true"},
                n,
                body(read * 100 + n, 1 + n % 5),
                code=RequestCode.SEND_BATCH_MESSAGE,
                flag=ONEWAY_FLAG if n == 5 else 0,
            )
            for n in range(read)
        )
        for read in (1, 3, 26)
    ]
    plain, bulk, taken = await both(reads, mapped_file_size_commit_log=1 << 20)
    assert plain == bulk
    assert taken == sum(map(len, reads))


async def test_a_batch_goes_in_bulk_however_many_reads_bring_it() -> None:
    body = batch.encode([batch.BatchMessage(bytes(1000), b"")] * 300)
    frame = json_frame(USUAL | {"m": "true"}, 7, body, code=RequestCode.SEND_BATCH_MESSAGE)
    cuts = [0, 10, 5_000, 100_000, 200_000, len(frame) - 1, len(frame) + 3]
    reads = [(frame + frame[:9])[begin:end] for begin, end in pairwise(cuts)] + [frame[3:]]
    sizes = {"mapped_file_size_commit_log": 1 << 20, "max_message_size": 1 << 20}
    plain, bulk, taken = await both(reads, **sizes)
    assert plain == bulk
    assert taken == 2 * len(frame)


@pytest.mark.parametrize("frame", FRAMES)
async def test_sends_with_an_idempotence_key_step_aside_and_the_others_go_in_bulk(
    frame: Callable[..., bytes],
) -> None:
    def batch_of(opaque: int, *keys: str) -> bytes:
        members = [
            batch.BatchMessage(b"x" * 9, b"UNIQ_KEY\x01K\x02WAIT\x01true\x02" + key.encode()) for key in keys
        ]
        fields = USUAL | {"i": "UNIQ_KEY\x01B\x02", "m": "true"}
        return frame(fields, opaque, batch.encode(members), code=RequestCode.SEND_BATCH_MESSAGE)

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
    plain, bulk, taken = await both(reads)
    assert plain == bulk
    assert plain.counts[0] == 2 * 4 * len(TOPICS) + 4 + (1 + 4) + (3 + 1 + 1) + (4 + 2)
    assert taken == 3 * len(b"".join(usual)) + len(usual[0])


PROPERTIES = [
    USUAL["i"],
    "UNIQ_KEY\x01abc\x02",
    "UNIQ_KEY\x01абв\x02",
    'UNIQ_KEY\x01a"b\x02',
    "UNIQ_KEY\x01abc\x02TAGS\x01标签 🙂\x02",
    'UNIQ_KEY\x01abc\x02TAGS\x01ключ\x02имя\x01\\ "x"\t\r\n\b\f/\x02',
    "UNIQ_KEY\x01abc\x02TAGS\x01a\x02TAGS\x01b\x02",
    "UNIQ_KEY\x01abc\x02TAGS\x01a\x02TAGS\x01\x02",
    "UNIQ_KEY\x01abc\x02UNIQ_KEY\x01def\x02",
    "UNIQ_KEY\x01\x02KEYS\x01k1\x02",
    "UNIQ_KEY\x01abc\x02\x02TAGS\x02\x01x\x02a\x01b\x01c\x02",
    "UNIQ_KEY\x01abc",
    "KEYS\x01k1\x02",
    "",
    "UNIQ_KEY\x01abc\x02IDEMPOTENCE_KEY\x01k\x02",
    "IDEMPOTENCE_KEY\x01k\x02UNIQ_KEY\x01abc\x02IDEMPOTENCE_KEY\x01l\x02",
    "UNIQ_KEY\x01abc\x02IDEMPOTENCE_KEYS\x01k\x02",
    *(
        f"UNIQ_KEY\x01abc\x02{name}\x01{value}\x02"
        for name, value in [
            ("DELAY", "3"),
            ("DELAY", "0"),
            ("DELAY", "0" * 19 + "1"),
            ("DELAY", "4Pinpoint"),
            ("DELAY", "2147483648"),
            ("WAIT", "FALSE"),
            ("WAIT", "true"),
            ("TRAN_MSG", "true"),
            ("TIMER_DELAY_SEC", "10"),
            ("TIMER_DELIVER_MS", "1"),
            ("MSG_REGION", "here"),
            ("TRACE_ON", "false"),
            ("CLUSTER", "c"),
            ("POP_CK", "x"),
            ("WAIT", "false"),
            ("DELAY", ""),
            ("XDELAY", "1"),
            ("MSG_REGIONAL", "x"),
            ("long", "v" * 32_700),
        ]
    ),
]
NUMBERS = ["0", "1", "-1", "3", "4", "04", "-0", "1.0", "x", "", " 1", "2147483647", "2147483648", "9" * 30]
CHANGES: dict[str, Sequence[Any]] = {
    "a": ["group", "", "grüppe", 'q"'],
    "b": [
        *TOPICS,
        "Made",
        "%RETRY%group",
        "%DLQ%group",
        "no/topic",
        "тема",
        "",
        "SCHEDULE_TOPIC_XXXX",
        "t" * 128,
    ],
    "c": ["TBW102", "x"],
    "d": NUMBERS,
    "e": ["0", "1", "2", "3", *NUMBERS],
    "f": ["0", "1", "48", "4", "8", *NUMBERS],
    "g": ["1795255006748", "-5", "9223372036854775807", "9223372036854775808", *NUMBERS],
    "h": ["7", "-7", *NUMBERS],
    "i": PROPERTIES,
    "j": NUMBERS,
    "k": ["true", "false", "True", "1", "", "x"],
    "l": NUMBERS,
    "m": ["false", "true", "0", "truefalse"],
    "n": ["broker-a", "ü"],
    "zz": ["anything", "ü"],
}
changes = st.lists(st.sampled_from(sorted(CHANGES)), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries(
        {
            name: st.sampled_from(CHANGES[name]) | (st.text(max_size=5) if name != "b" else st.nothing())
            for name in names
        }
    )
)
usual = st.builds(
    lambda topic, queue_id, properties: USUAL | {"b": topic, "e": str(queue_id), "i": properties},
    st.sampled_from(TOPICS),
    st.integers(0, 3),
    st.sampled_from(PROPERTIES[:9]),
)
fields = st.one_of(
    usual,
    usual,
    st.builds(lambda kept, changed: kept | changed, usual, changes),
    st.builds(
        lambda kept, gone: {name: value for name, value in kept.items() if name != gone},
        usual,
        st.sampled_from(sorted(USUAL)),
    ),
)
bodies = st.sampled_from([b"body", b"x" * 128, b"", bytes(range(256)), b"y" * 3000, b"y" * 3001]) | st.binary(
    max_size=40
)
codes = st.sampled_from([V2] * 12 + [RequestCode.SEND_MESSAGE, RequestCode.GET_MAX_OFFSET, 9999])
flags = st.sampled_from([0] * 8 + [ONEWAY_FLAG, 1, 3, 4])


@st.composite
def json_sends(draw: st.DrawFn) -> bytes:
    """Write a send in JSON of any style."""
    values: dict[str, Any] = draw(fields)
    if draw(st.integers(0, 9)) == 0:
        name = draw(st.sampled_from(sorted(values)))
        values = values | {name: draw(st.sampled_from([7, True, None, 1.5]))}
    header = {
        "code": draw(codes),
        "extFields": values,
        "flag": draw(flags),
        "language": draw(st.sampled_from(["JAVA", "PYTHON", "KLINGON"])),
        "opaque": draw(st.integers(-(2**31), 2**31 - 1)),
        "serializeTypeCurrentRPC": "JSON",
        "version": 479,
    }
    if draw(st.integers(0, 9)) == 0:
        header |= draw(
            st.sampled_from(
                [
                    {"remark": "hm"},
                    {"remark": None},
                    {"new": 1},
                    {"language": 3},
                    {"flag": None},
                    {"more": "\u0001"},
                ]
            )
        )
    if draw(st.integers(0, 9)) == 0:
        del header[draw(st.sampled_from(["flag", "language", "version", "serializeTypeCurrentRPC"]))]
    if draw(st.booleans()):
        header = dict(draw(st.permutations(sorted(header.items()))))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\n", " : ")]))
    text = json.dumps(header, separators=separators, ensure_ascii=draw(st.booleans()))
    if draw(st.integers(0, 9)) == 0:
        text = text.replace('"extFields":{', '"extFields":{"e":"1",', 1)
    if draw(st.integers(0, 9)) == 0:
        text = text.replace('"b":', '"\\u0062":', 1).replace("false", "f\\u0061lse")
    try:
        return framed(text.encode(), draw(bodies))
    except UnicodeEncodeError:
        return framed(text.encode("utf-8", "replace"), draw(bodies))


binary_sends = st.builds(
    lambda values, opaque, body, code, flag: binary_frame(values, opaque, body, code=code, flag=flag),
    fields,
    st.integers(-(2**31), 2**31 - 1),
    bodies,
    codes,
    flags,
)
batch_bodies = st.builds(
    lambda messages, cut, tail: batch.encode(messages)[cut:] + tail,
    st.lists(
        st.builds(
            batch.BatchMessage,
            bodies,
            st.sampled_from([text.encode() for text in PROPERTIES]) | st.binary(max_size=20),
            st.integers(-(2**31), 2**31 - 1),
        ),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([0] * 12 + [1, 22]),
    st.sampled_from([b""] * 12 + [b"\0", bytes(22)]),
)
batches = st.builds(
    lambda frame, values, is_batch, opaque, body, code, flag: frame(
        values | {"m": is_batch}, opaque, body, code=code, flag=flag
    ),
    st.sampled_from(FRAMES),
    st.one_of(usual, usual, usual, fields),
    st.sampled_from(["true", "true", "false", "x"]),
    st.integers(-(2**31), 2**31 - 1),
    batch_bodies,
    st.sampled_from([RequestCode.SEND_BATCH_MESSAGE] * 4 + [V2]),
    flags,
)
usual_frames = st.builds(
    lambda frame, values, opaque: frame(values, opaque, b"body" * 9),
    st.sampled_from(FRAMES),
    usual,
    st.integers(-(2**31), 2**31 - 1),
)
frames = st.one_of(usual_frames, usual_frames, usual_frames, json_sends(), binary_sends, batches)


@st.composite
def streams(draw: st.DrawFn) -> list[bytes]:
    """Cut frames into reads; at the end there may be garbage, in a read of its own."""
    data = b"".join(draw(st.lists(frames, min_size=1, max_size=12)))
    cuts = sorted(draw(st.lists(st.integers(0, len(data)), max_size=3)))
    reads = [data[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    return [
        *reads,
        draw(
            st.sampled_from([b"", b"", framed(b"{"), framed(b'{"code":310'), b"\0\0\0\3"])
            | st.binary(max_size=20)
        ),
    ]


@given(streams(), st.sampled_from([{}, SYNC]))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
async def test_any_reads_give_what_the_plain_path_gives(reads: list[bytes], changes: dict[str, Any]) -> None:
    plain, bulk, taken = await both(reads, **changes)
    event(f"bulk: {taken > 0}")
    assert plain == bulk


def frames_of(count: int, first: int = 0) -> bytes:
    """Make usual sends to the queues of TopicA in turn."""
    return b"".join(json_frame(USUAL | {"e": str(n % 4)}, first + n) for n in range(count))


def answers(made: Desk) -> list[Command]:
    data, made.wire.data = made.wire.data, b""
    return FrameReader().receive_data(data)


async def test_a_held_pull_is_answered_when_its_message_comes_in_bulk() -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        answers(made)
        pull = fields_of(pull_header("TopicA", 2, wait_ms=10_000, queue_id=1))
        made.read(encode(Command(RequestCode.PULL_MESSAGE, 99, ext_fields=pull)))
        assert answers(made) == [] and made.parts.pulls.held_count == 1
        made.bulk.taken = 0
        made.read(data := frames_of(3))
        assert made.bulk.taken == len(data)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        found = answers(made)
        assert [answer.opaque for answer in found] == [0, 1, 2, 99]
        assert bodies_of(found[-1]) == [b"body"] and made.parts.pulls.held_count == 0


async def test_a_full_disk_is_answered_as_on_the_plain_path_and_sending_goes_on_when_there_is_space() -> None:
    kernels.load()
    disk = MemoryDisk()
    with desk(ROOT, bulk=True, files=disk, mapped_file_size_commit_log=1 << 20) as made:
        answers(made)
        disk.space_bytes = 0
        made.read(frames_of(50))
        refused = answers(made)
        assert {answer.code for answer in refused} == {ResponseCode.SERVICE_NOT_AVAILABLE}
        assert len(refused) == 50 and "disk full" in (refused[0].remark or "")
        disk.space_bytes = 1 << 40
        made.read(frames_of(4, 50))
        assert [answer.ext_fields["queueOffset"] for answer in answers(made)] == ["2"] * 4


async def test_a_topic_that_is_deleted_and_made_again_begins_anew() -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        delete = Command(RequestCode.DELETE_TOPIC_IN_BROKER, 7, ext_fields={"topic": "TopicA"})
        answers(made)
        made.read(frames_of(8) + encode(delete) + frames_of(8, 10))
        offsets = [answer.ext_fields.get("queueOffset") for answer in answers(made)]
        assert offsets == ["2"] * 4 + ["3"] * 4 + [None] + ["0"] * 4 + ["1"] * 4
        made.read(frames_of(4))
        assert [answer.ext_fields["queueOffset"] for answer in answers(made)] == ["2"] * 4


async def test_a_new_topic_lets_the_others_be() -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        made.read(json_frame(USUAL | {"b": "New"}))
        made.bulk.taken = 0
        for topic in [*TOPICS, "New"]:
            frame = json_frame(USUAL | {"b": topic})
            made.read(frame)
            assert made.bulk.taken == len(frame)
            made.bulk.taken = 0


async def test_a_topic_that_has_changed_is_judged_anew() -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk()) as made:
        config = made.parts.topics.find("TopicA")
        assert config is not None
        made.parts.topics.put(replace(config, read_queue_count=1, write_queue_count=1))
        made.read(json_frame(USUAL | {"e": "3"}))
        made.read(json_frame(USUAL | {"e": "0"}))
        codes = [answer.code for answer in FrameReader().receive_data(made.wire.data)]
        assert codes[-2:] == [ResponseCode.INVALID_PARAMETER, ResponseCode.SUCCESS]


async def test_where_bulk_fails_all_that_is_left_of_the_read_is_answered_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_: object) -> None:
        raise KeyError("a secret")

    kernels.load()
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


async def test_under_sync_flush_sends_in_bulk_are_answered_and_readable_when_they_are_on_the_disk() -> None:
    kernels.load()
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


async def test_sends_in_bulk_whose_sync_fails_are_told_that_they_are_stored_but_may_be_lost() -> None:
    kernels.load()
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


@pytest.mark.parametrize("setting", ["enable_consume_queue_ext", "enabled_append_prop_crc"])
async def test_a_store_with_extended_queues_or_the_property_crc_takes_nothing_in_bulk(setting: str) -> None:
    reads = [json_frame(USUAL, number) for number in range(3)]
    plain, bulk, taken = await both(reads, **{setting: True})
    assert plain == bulk
    assert taken == 0


@pytest.mark.parametrize("changes", [{}, SYNC], ids=["async", "sync"])
async def test_what_many_connections_send_in_a_turn_is_stored_at_once_and_answered_to_each(
    changes: dict[str, Any],
) -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk(), **changes, mapped_file_size_commit_log=1 << 20) as made:
        await made.on_disk()
        wires = [Wire(host) for host in ("10.0.0.7", "::1", "10.0.0.8")]
        sessions = [Session(made.server) for _ in wires]
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
            record = made.store.read_record(first)
            assert record is not None
            hosts.append(decode(record).born_host)
            first += len(record)
        assert hosts == [wires[n].packed for n in (0, 0, 1, 1, 2, 2)]
        for session in sessions:
            made.server.remove(session)
