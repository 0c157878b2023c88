"""Queries that are read as rows get what queries get that come as commands."""

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.broker.conftest import bodies, serving
from tests.broker.desk import ROOT, TOPICS, USUAL, Desk, Result, binary_frame, desk, framed, json_frame
from tests.broker.desk import both as both_of
from tests.kit.pull_frames import heartbeat, pull

from cometmq import kernels
from cometmq.format import layout
from cometmq.format.message_id import parse_offset_message_id
from cometmq.format.record import decode_many
from cometmq.kernels import plain
from cometmq.kernels.queries.rows import QUERIES_MAX
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire import headers
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command, decode

BY_KEY, BY_ID = RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID
FRAMES: list[Callable[..., bytes]] = [json_frame, binary_frame]
LARGE: dict[str, Any] = {"mapped_file_size_commit_log": 1 << 20}
KEY = {
    "topic": "TopicA",
    "key": "k1",
    "maxNum": "32",
    "beginTimestamp": "0",
    "endTimestamp": "9223372036854775807",
    "_UNIQUE_KEY_QUERY": "false",
}
"""What the Java client asks."""


def send(number: int = 0, topic: str = "TopicA", body: bytes = b"body") -> bytes:
    fields = USUAL | {"b": topic, "e": str(number % 4), "i": f"KEYS\1k1 own{number}\2UNIQ_KEY\1u{number}\2"}
    return json_frame(fields, 3, body)


def by_key(opaque: int = 1, frame: Callable[..., bytes] = json_frame, **changes: str) -> bytes:
    return frame(KEY | changes, opaque, b"", code=BY_KEY)


def by_id(offset: object, opaque: int = 1, frame: Callable[..., bytes] = json_frame) -> bytes:
    return frame({"offset": str(offset), "topic": "TopicA"}, opaque, b"", code=BY_ID)


async def both(reads: Sequence[bytes], **changes: Any) -> tuple[Result, Result, int]:
    """Return what comes of reads whose queries are commands, and rows, and how many bytes went as rows.

    With the plain body of the leaf operations the same must come of them as with the compiled one.
    """
    with patch.object(kernels.loading, "ops", plain):
        commands, rows, plainly_taken = await both_of(reads, **LARGE | changes)
    assert rows == commands
    commands, rows, taken = await both_of(reads, **LARGE | changes)
    assert plainly_taken >= taken
    return commands, rows, taken


async def offsets_of(reads: Sequence[bytes]) -> list[int]:
    """Return where the records lie after some reads."""
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:
        for read in reads:
            made.read(read)
        await made.on_disk()
        queues = made.store._queues
        entries = [queue.read(0, 1_000) for queue in queues]
    return sorted(int.from_bytes(one[at : at + 8], "big") for one in entries for at in range(0, len(one), 20))


SENDS = [b"".join(send(n) for n in range(20)), send(1, TOPICS[1]) + send(2, TOPICS[2], b"x")]
OFFSETS: list[int] = []
"""Where their records lie: filled before the first test, since it takes a broker and the kernels."""


@pytest.fixture(scope="module", autouse=True)
def _offsets_are_known() -> None:
    OFFSETS[:] = asyncio.run(offsets_of(SENDS))


@pytest.mark.parametrize("frame", FRAMES)
async def test_what_the_java_client_asks_goes_as_rows(frame: Callable[..., bytes]) -> None:
    reads = [
        b"".join(
            by_id(OFFSETS[(read * 7 + n) % len(OFFSETS)], read * 100 + n, frame)
            + by_key(read * 100 + n + 50, frame, key=f"own{n}", maxNum=str(n + 1))
            for n in range(read)
        )
        for read in (1, 3, 20)
    ]
    commands, rows, taken = await both([*SENDS, *reads])
    assert commands == rows
    assert taken == len(b"".join([*SENDS, *reads]))


async def test_what_finds_nothing_is_refused_in_its_place() -> None:
    nothing = by_key(1, key="none") + by_id(OFFSETS[3] + 1, 2) + by_id(-7, 3) + by_id(1 << 40, 4)
    reads = [*SENDS, by_id(OFFSETS[0], 8) + nothing + by_id(OFFSETS[1], 9)]
    commands, rows, taken = await both(reads)
    assert commands == rows
    assert taken == len(b"".join(reads))
    with desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:
        for read in reads:
            answers(made)
            made.read(read)
            await made.on_disk()
        assert [answer.opaque for answer in answers(made)] == [8, 1, 2, 3, 4, 9]


async def test_queries_are_known_by_their_code_however_the_header_is_written() -> None:
    def blank(code: int, fields: dict[str, str], opaque: int) -> bytes:
        header = {"opaque": opaque, "extFields": fields, "language": "PYTHON", "code": code, "flag": 0}
        return framed(json.dumps(header).encode(), b"")

    asked = [blank(BY_KEY, KEY, 1), blank(BY_ID, {"offset": str(OFFSETS[2])}, 2)]
    mixed = [heartbeat("cg") + asked[0], asked[1] + send(1) + asked[0] + pull(9) + asked[1]]
    commands, rows, taken = await both([*SENDS, *asked, *mixed])
    assert commands == rows
    assert taken == len(b"".join([*SENDS, *asked, *mixed])) - len(heartbeat("cg"))
    with desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:
        made.read(b"".join(asked))
        assert made.parts.rates.query_commands == 0
        assert sum(made.parts.rates.query_rows.values()) == 2


async def test_more_than_are_taken_at_once_and_more_than_fits_is_answered_whole() -> None:
    sends = [
        b"".join(send(n, body=bytes(2_500)) for n in range(part, part + 50)) for part in range(0, 300, 50)
    ]
    asked = [by_key(n, key=f"own{n}") for n in range(300)]
    many = b"".join(asked) + b"".join(asked[:QUERIES_MAX])
    commands, rows, taken = await both([*sends, many], max_message_size=4_000, max_hash_slot_num=5_000)
    assert commands == rows
    assert taken == len(b"".join([*sends, many]))


async def test_queries_sends_and_pulls_of_one_read_keep_their_order() -> None:
    frames = (
        by_key(1, key="own7") + send(7) + by_key(2, key="own7") + send(7) + pull(3) + by_key(4, key="own7")
    )
    commands, rows, _ = await both([heartbeat("cg"), frames, by_id(OFFSETS[0]) + frames])
    assert commands == rows


async def test_one_way_queries_are_not_answered() -> None:
    frames = json_frame(KEY, 1, b"", code=BY_KEY, flag=2) + by_key(2)
    commands, rows, taken = await both([*SENDS, frames])
    assert commands == rows
    assert taken == len(b"".join(SENDS)) + len(by_key(2)), "the other is a command"


async def test_of_equal_hashes_only_the_topic_and_the_key_that_are_asked_for_are_answered() -> None:
    def sent(number: int, topic: str, keys: str) -> bytes:
        fields = USUAL | {"b": topic, "e": "0", "i": f"KEYS\1{keys}\2UNIQ_KEY\1u{number % 3}\2"}
        return json_frame(fields, 3, b"%d" % number)

    async def main() -> None:
        kernels.load()
        with desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:
            topics = ("shard1a", "shard2B")
            made.read(b"".join(sent(n, topics[n % 2], "Aa k k" if n % 3 else "BB k") for n in range(60)))
            await made.on_disk()
            answers(made)
            asked = [("k", "false"), ("Aa", "false"), ("BB", "false"), ("u1", "true"), ("u1", "false")]
            for n, topic in enumerate(topics):
                for key, unique in asked:
                    made.read(by_key(topic=topic, key=key, maxNum="7", _UNIQUE_KEY_QUERY=unique))
                    (answer,) = answers(made)
                    right = [m for m in range(n, 60, 2) if key in ("k", f"u{m % 3}", "Aa" if m % 3 else "BB")]
                    found = [int(one.body) for one in decode_many(answer.body)]
                    assert found == right[-32 if unique == "true" else -7 :]

    await main()


def answers(made: Desk) -> list[Command]:
    frames = FrameReader().receive_data(made.wire.data)
    made.wire.data = b""
    return frames


async def test_an_answer_says_how_far_the_index_is_at_that_time() -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:
        seen = []
        for n in range(3):
            made.read(send(n))
            await made.on_disk()
            answers(made)
            made.read(by_key(key="own0"))
            (answer,) = answers(made)
            seen.append(int(answer.ext_fields["indexLastUpdatePhyoffset"]))
            assert seen[-1] == made.store.query("TopicA", "own0").index_last_update_offset
        assert len(set(seen)) == 3


async def test_a_damaged_record_is_refused() -> None:
    kernels.load()
    files = MemoryDisk()
    with desk(ROOT, bulk=True, files=files, **LARGE) as made:
        made.read(send(body=b"sound"))
        await made.on_disk()
        (record,) = made.store.query("TopicA", "own0").records
        offset = int.from_bytes(record[28:36], "big")
        directory = layout.commitlog_dir(ROOT)
        log = files.open(directory / files.names(directory)[0], writable=True)
        log.write(offset + record.index(b"sound"), b"wrong")
        answers(made)
        made.read(by_id(offset, 1) + by_key(2, key="own0"))
        codes = {answer.opaque: answer.code for answer in answers(made)}
        assert codes == {1: ResponseCode.SYSTEM_ERROR, 2: ResponseCode.QUERY_NOT_FOUND}


async def test_a_peer_that_takes_no_answers_gets_none() -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:
        made.read(send())
        await made.on_disk()
        answers(made)
        made.session.pause_writing()
        made.session.data_received(by_key())
        made.server.turn.handle()
        assert not answers(made)
        made.session.resume_writing()
        made.server.turn.handle()
        assert len(answers(made)) == 1


async def test_a_peer_that_stops_taking_answers_gets_each_once_in_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernels.load()
    with desk(ROOT, bulk=True, files=MemoryDisk(), max_message_size=4_000, **LARGE) as made:
        for part in range(0, 60, 20):
            made.read(b"".join(send(n, body=bytes(3_700)) for n in range(part, part + 20)))
        await made.on_disk()
        answers(made)
        write, sizes = made.wire.write, list[int]()

        def write_and_stop(data: bytes) -> None:
            write(data)
            sizes.append(len(data))
            made.session.pause_writing()

        monkeypatch.setattr(made.wire, "write", write_and_stop)
        monkeypatch.setattr(made.wire, "writelines", lambda data: write_and_stop(b"".join(data)))
        asked = b"".join(by_key(n, key=f"own{n % 60}") for n in range(250))
        for begin in range(0, len(asked), 50_000):
            made.session.data_received(asked[begin : begin + 50_000])
        for _ in range(20):
            made.server.turn.handle()
            await asyncio.sleep(0)
            made.session.resume_writing()
        await asyncio.sleep(0)
        assert sorted(answer.opaque for answer in answers(made)) == list(range(250))
        assert len(sizes) > 1 and made.parts.rates.rare_queries == made.parts.rates.query_commands > 0


NUMBERS = ["0", "1", "-1", "3", "04", "x", "", " 1", "2147483648", "9223372036854775807", "9" * 19]
CHANGES: dict[str, Sequence[Any]] = {
    "topic": [*TOPICS, "Missing", "тема", "", 'q"'],
    "key": ["own1", "k1", "T#x", "own2", "u3", "missing", "", "ключ", "k1 own1", 'q"', "jllgvmc"],
    "maxNum": ["2", "64", "65", *NUMBERS],
    "beginTimestamp": NUMBERS,
    "endTimestamp": NUMBERS,
    "_UNIQUE_KEY_QUERY": ["true", "false", "1", "TRUE", "x", ""],
    "offset": ["5", *NUMBERS],
    "indexType": ["U", "ü"],
}
changes = st.lists(st.sampled_from(sorted(CHANGES)), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: st.sampled_from(CHANGES[name]) for name in names})
)
key_fields = st.builds(lambda more: KEY | {"key": "own1"} | more, changes)
id_fields = st.builds(
    lambda offset, more: {"offset": str(offset)} | more,
    st.deferred(lambda: st.sampled_from([*OFFSETS, OFFSETS[1] + 1, OFFSETS[-1] + 400])),
    st.one_of(st.just({}), st.just({}), changes),
)
queries = st.builds(
    lambda frame, asked, opaque, flag, body: frame(asked[1], opaque, body, code=asked[0], flag=flag),
    st.sampled_from(FRAMES),
    st.one_of(st.tuples(st.just(BY_KEY), key_fields), st.tuples(st.just(BY_ID), id_fields)),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from([0] * 10 + [1, 2, 4]),
    st.sampled_from([b""] * 10 + [b"body"]),
)
others = st.sampled_from([send(3), send(4) + send(5), pull(9), heartbeat("cg")])
reads = st.lists(
    st.lists(st.one_of(queries, queries, queries, others), min_size=1, max_size=8).map(b"".join),
    min_size=1,
    max_size=3,
)


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
@given(reads)
async def test_any_reads_give_what_commands_give(data: list[bytes]) -> None:
    commands, rows, taken = await both([*SENDS, *data])
    event(f"rows: {taken > len(b''.join(SENDS))}")
    assert commands == rows


async def test_queries_are_counted_by_the_way_they_go() -> None:
    with desk(ROOT, bulk=True, files=MemoryDisk(), **LARGE) as made:
        made.read(send(1))
        await made.on_disk()
        rates = made.parts.rates
        with patch.object(kernels.loading, "ops", plain):
            made.read(by_key(1) + by_key(2, key="none"))
        kernels.load()
        made.read(by_key(3))
        assert rates.query_rows == {"plain": 2, "compiled": 1}
        assert (rates.query_commands, rates.rare_queries) == (0, 0)
        made.read(by_key(4, key="gr\u00fcn") + by_id(7, 5))
        assert rates.query_rows == {"plain": 2, "compiled": 2}
        assert (rates.query_commands, rates.rare_queries) == (1, 2)


async def test_a_query_that_is_read_for_is_answered_once_its_peer_takes_answers() -> None:
    with desk(ROOT, bulk=False, files=MemoryDisk(), **LARGE) as made:
        made.read(send(1))
        await made.on_disk()
        answers(made)
        made.session.pause_writing()
        command = decode(by_key(7))
        made.parts.requests.handle(made.session, [command])
        assert not answers(made)
        made.session.resume_writing()
        made.server.turn.flush()
        assert [(one.opaque, one.code) for one in answers(made)] == [(7, ResponseCode.SUCCESS)]


async def test_a_message_is_found_by_its_offset_id(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"other")
        sent = await bench.send("T", b"wanted")
        at = parse_offset_message_id(sent.ext_fields["msgId"]).physical_offset
        answer = await bench.ask(RequestCode.VIEW_MESSAGE_BY_ID, headers.ViewMessageHeader(at))
        assert bodies(answer) == [b"wanted"]
        for nowhere in (at + 1, 10**9, -5):
            answer = await bench.ask(RequestCode.VIEW_MESSAGE_BY_ID, headers.ViewMessageHeader(nowhere))
            assert answer.code == ResponseCode.SYSTEM_ERROR
            assert answer.remark == f"can not find message by the offset, {nowhere}"


async def test_messages_are_found_by_key_and_unique_key_within_a_time(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for n in range(3):
            await bench.send("T", b"%d" % n, KEYS=f"shared own{n}", UNIQ_KEY=f"u{n}")
            bench.clock.advance(10_000)
        header = headers.QueryMessageHeader("T", "shared", 10, 0, 2**62)
        answer = await bench.ask(RequestCode.QUERY_MESSAGE, header)
        assert bodies(answer) == [b"0", b"1", b"2"]
        assert int(answer.ext_fields["indexLastUpdatePhyoffset"]) > 0
        by_unique = replace(header, key="u1", max_count=0, is_unique_key=True)
        assert bodies(await bench.ask(RequestCode.QUERY_MESSAGE, by_unique)) == [b"1"]
        first = replace(header, end_time=bench.clock.now_ms() - 25_000)
        assert bodies(await bench.ask(RequestCode.QUERY_MESSAGE, first)) == [b"0"]
        none = await bench.ask(RequestCode.QUERY_MESSAGE, replace(header, key="nothing"))
        assert none.code == ResponseCode.QUERY_NOT_FOUND
