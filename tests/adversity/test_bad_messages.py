"""Messages over a limit, batches that lie, queues and offsets that there are not."""

import contextlib
import logging
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.adversity.conftest import CALM, QUEUES, attacked, read
from tests.broker.conftest import bodies, pull_header, send_header
from tests.kit.refusals import assert_log_is_sound, says

from cometmq.client import PullConsumer
from cometmq.errors import UndecodableBody
from cometmq.format import properties, record, sys_flag
from cometmq.format.compression import DECOMPRESSED_MAX
from cometmq.format.message_id import parse_offset_message_id
from cometmq.format.sys_flag import CompressionType
from cometmq.wire import batch, headers
from cometmq.wire.batch import BatchMessage
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

BODY_MAX = 4 * 1024 * 1024
LARGE_FILES = {"mapped_file_size_commit_log": 16 * 1024 * 1024}
FAR = (-1, -(2**31), -(2**63), 2**63 - 1, 10**6)
V2 = RequestCode.SEND_MESSAGE_V2
BATCH = RequestCode.SEND_BATCH_MESSAGE


async def test_a_body_over_the_limit_is_illegal_and_one_at_it_is_not(tmp_path: Path) -> None:
    async with attacked(tmp_path, store=LARGE_FILES) as scene:
        largest = bytes(range(256)) * (BODY_MAX // 256)
        assert says(await scene.client.send("T", largest), ResponseCode.SUCCESS)
        for size in (BODY_MAX + 1, 16 * 1024 * 1024 - 10_000):
            answer = await scene.client.send("T", bytes(size))
            assert says(answer, ResponseCode.MESSAGE_ILLEGAL, str(size), str(BODY_MAX), "maxMessageSize")
        assert says(await scene.client.send("T", b""), ResponseCode.MESSAGE_ILLEGAL, "0 bytes")
        assert await read(scene.client, "T", 0) == {0: largest}


async def test_a_message_that_no_file_has_room_for_is_illegal(tmp_path: Path) -> None:
    async with attacked(tmp_path) as scene:
        answer = await scene.client.send("T", bytes(1 << 20))
        words = ("CommitLog file", "send a smaller message", "mappedFileSizeCommitLog")
        assert says(answer, ResponseCode.MESSAGE_ILLEGAL, *words)
        assert await read(scene.client, "T", 0) == {}


async def test_properties_over_the_limit_are_illegal_and_at_it_are_not(tmp_path: Path) -> None:
    async with attacked(tmp_path) as scene:
        unique: dict[str, Any] = {"UNIQ_KEY": "u" * 32}
        await scene.client.send("T", b"first", **unique)
        pulled = await scene.client.ask(RequestCode.PULL_MESSAGE, pull_header("T"))
        (first,) = record.decode_many(pulled.body)
        room = properties.MAX_LENGTH - len(first.properties) - len("long\x01\x02")
        for length, code in ((room, ResponseCode.SUCCESS), (room + 1, ResponseCode.MESSAGE_ILLEGAL)):
            assert (await scene.client.send("T", b"full", **unique, long="x" * length)).code == code
        for text in ("a" * 32_768 + "\x01b\x02", "a\x01b\x02" * 8_192, "n\x01" + "é" * 16_384 + "\x02"):
            answer = await scene.client.ask(V2, replace(send_header("T"), properties=text), b"body")
            assert says(answer, ResponseCode.MESSAGE_ILLEGAL, "32767", "fewer or shorter")
        assert (await read(scene.client, "T", 0))[1] == b"full"


def member(
    body: bytes = b"body",
    props: bytes = b"",
    *,
    size: int | None = None,
    told_body: int | None = None,
    told_properties: int | None = None,
) -> bytes:
    """Write a message of a batch, with lengths that may lie."""
    size = 22 + len(body) + len(props) if size is None else size
    head = struct.pack(">5i", size, 0, 0, 0, len(body) if told_body is None else told_body)
    return head + body + struct.pack(">h", len(props) if told_properties is None else told_properties) + props


LIES = {
    "nothing": b"",
    "one byte": b"\0",
    "cut head": member()[:19],
    "cut body": member()[:22],
    "cut properties": member(props=b"a\x01b\x02")[:-1],
    "size zero": member(size=0),
    "size negative": member(size=-1),
    "size too large": member(size=2**31 - 1),
    "size too small": member(size=25),
    "body negative": member(told_body=-1),
    "body longer than all": member(told_body=2**31 - 1),
    "properties negative": member(told_properties=-1),
    "properties longer than all": member(told_properties=32_767),
    "second one lies": member() + member(size=0),
    "garbage behind": member() + b"xyz",
    "too many": member(b"") * (batch.COUNT_MAX + 1),
}


async def test_a_batch_that_lies_about_a_length_stores_nothing(tmp_path: Path) -> None:
    async with attacked(tmp_path, store=LARGE_FILES) as scene:
        for what, body in LIES.items():
            answer = await scene.client.ask(BATCH, send_header("T"), body)
            assert answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL), what
            assert "batch" in (answer.remark or "") or not body, (what, answer)
        specials: list[dict[str, Any]] = [{"DELAY": "3"}, {"TRAN_MSG": "true"}]
        for special in specials:
            answer = await scene.client.ask(BATCH, send_header("T", **special), member())
            assert says(answer, ResponseCode.MESSAGE_ILLEGAL, "one by one")
        too_long = batch.encode([BatchMessage(b"body", b"a\x01" + b"x" * 32_000 + b"\x02")] * 131)
        answer = await scene.client.ask(BATCH, send_header("T"), too_long)
        assert says(answer, ResponseCode.MESSAGE_ILLEGAL, str(len(too_long)), str(BODY_MAX))
        assert await read(scene.client, "T", 0) == {}
        assert (await scene.client.ask(BATCH, send_header("T"), member() * 3)).code == ResponseCode.SUCCESS
        assert await read(scene.client, "T", 0) == dict.fromkeys(range(3), b"body")


async def test_a_time_that_makes_no_sense_is_refused_and_not_stored(tmp_path: Path) -> None:
    async with attacked(tmp_path) as scene:
        timers: list[tuple[dict[str, Any], str]] = [
            ({"TIMER_DELIVER_MS": "9" * 13}, "timerMaxDelaySec"),
            ({"TIMER_DELAY_SEC": "x"}, "give a whole number"),
        ]
        for special, remedy in timers:
            answer = await scene.client.send("T", **special)
            assert says(answer, ResponseCode.MESSAGE_ILLEGAL, *special, remedy)
        assert await read(scene.client, "T", 0) == {}


async def test_half_a_transaction_is_refused_and_not_stored(tmp_path: Path) -> None:
    async with attacked(tmp_path) as scene:
        answer = await scene.client.send("T", TRAN_MSG="true")
        assert says(answer, ResponseCode.MESSAGE_ILLEGAL, "without property PGROUP", "nobody could end")
        for flag in (4, 8, 12):
            answer = await scene.client.ask(V2, replace(send_header("T"), sys_flag=flag), b"body")
            assert says(answer, ResponseCode.MESSAGE_ILLEGAL, f"sysFlag {flag}", "TRAN_MSG is not true")
        assert await read(scene.client, "T", 0) == {}


async def test_a_queue_that_there_is_not_is_named(tmp_path: Path) -> None:
    async with attacked(tmp_path) as scene:
        for queue_id in (QUEUES, 65_536, 2**31 - 1):
            answer = await scene.client.send(CALM, queue_id=queue_id)
            assert says(answer, ResponseCode.INVALID_PARAMETER, CALM, f"no queue {queue_id}", str(QUEUES))
        for queue_id in (-1, -(2**31)):  # RocketMQ: any queue
            answer = await scene.client.send("Any", queue_id=queue_id)
            assert says(answer, ResponseCode.SUCCESS) and 0 <= int(answer.ext_fields["queueId"]) < QUEUES
        for queue_id in (QUEUES, 2**31 - 1, -1, -(2**31)):
            answer = await scene.client.ask(RequestCode.PULL_MESSAGE, pull_header(CALM, queue_id=queue_id))
            assert says(answer, ResponseCode.INVALID_PARAMETER, CALM, f"queueId[{queue_id}]", f"[{QUEUES}]")
            for code, header in (
                (RequestCode.GET_MAX_OFFSET, headers.GetMaxOffsetHeader(CALM, queue_id)),
                (RequestCode.GET_MIN_OFFSET, headers.GetMinOffsetHeader(CALM, queue_id)),
                (RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, headers.SearchOffsetHeader(CALM, queue_id, 0)),
            ):
                answer = await scene.client.ask(code, header)
                assert (answer.code, answer.ext_fields) == (ResponseCode.SUCCESS, {"offset": "0"})
            commit = headers.UpdateConsumerOffsetHeader("cg", CALM, queue_id, 1)
            answer = await scene.client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
            assert says(answer, ResponseCode.INVALID_PARAMETER, CALM, str(queue_id), str(QUEUES))


async def test_an_offset_that_there_is_not_leads_to_those_that_there_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with attacked(tmp_path) as scene:
        for n in range(5):
            await scene.client.send("T", b"%d" % n)
        for offset in FAR:
            answer = await scene.client.ask(RequestCode.PULL_MESSAGE, pull_header("T", offset))
            assert answer.code == ResponseCode.PULL_OFFSET_MOVED
            assert answer.ext_fields["nextBeginOffset"] == "0"  # the group has committed nothing
        commit = headers.UpdateConsumerOffsetHeader(pull_header("T").consumer_group, "T", 0, 3)
        assert says(await scene.client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit), ResponseCode.SUCCESS)
        for offset in FAR:
            answer = await scene.client.ask(RequestCode.PULL_MESSAGE, pull_header("T", offset))
            assert answer.ext_fields["nextBeginOffset"] == ("0" if offset < 0 else "5")
        for changes in (
            *({"max_message_count": number} for number in (0, -1, -(2**31), 2**31 - 1)),
            *({"max_message_bytes": number} for number in (0, -1, -(2**31), 2**31 - 1)),
            *({"suspend_timeout_ms": number} for number in (-1, -(2**63), 2**63 - 1)),
            *({"sub_version": number} for number in (-1, 2**63 - 1)),
        ):
            header: Any = replace(pull_header("T"), **changes)
            answer = await scene.client.ask(RequestCode.PULL_MESSAGE, header)
            assert answer.code == ResponseCode.SUCCESS and bodies(answer)[0] == b"0", changes
        for time, expected in ((-(2**63), "0"), (-1, "0"), (2**63 - 1, "5")):
            header = headers.SearchOffsetHeader("T", 0, time)
            answer = await scene.client.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
            assert answer.ext_fields["offset"] == expected
        for offset in (*FAR, 1, 17):
            view = headers.ViewMessageHeader(offset)
            answer = await scene.client.ask(RequestCode.VIEW_MESSAGE_BY_ID, view)
            assert says(answer, ResponseCode.SYSTEM_ERROR, str(offset))
            back = headers.SendBackHeader(offset, "cg", 0)
            answer = await scene.client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
            assert answer.code != ResponseCode.SUCCESS and answer.remark
    assert_log_is_sound(caplog)


async def test_a_wild_committed_offset_harms_nobody_and_does_not_outlive_a_restart(tmp_path: Path) -> None:
    async def committed(ask: Callable[..., Any], group: str) -> Command:
        query = headers.QueryConsumerOffsetHeader(group, "T", 0, set_zero_if_not_found=False)
        answer: Command = await ask(RequestCode.QUERY_CONSUMER_OFFSET, query)
        return answer

    async def main() -> None:
        async with attacked(tmp_path) as scene:
            ask = scene.client.ask
            await scene.client.send("T")
            for number, offset in enumerate((-1, -(2**63))):
                commit = headers.UpdateConsumerOffsetHeader(f"g{number}", "T", 0, offset)
                answer = await ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
                assert says(answer, ResponseCode.INVALID_PARAMETER, str(offset))
                assert (await committed(ask, f"g{number}")).code == ResponseCode.QUERY_NOT_FOUND
            commit = headers.UpdateConsumerOffsetHeader("far", "T", 0, 2**63 - 1)
            assert says(await ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit), ResponseCode.SUCCESS)
            for group in ("far", "g0"):
                stats = headers.GetConsumeStatsHeader(group)
                assert says(await ask(RequestCode.GET_CONSUME_STATS, stats), ResponseCode.SUCCESS)
            pulled = await ask(RequestCode.PULL_MESSAGE, pull_header("T", 2**63 - 1, group="far"))
            assert pulled.ext_fields["nextBeginOffset"] == "1"
        async with attacked(tmp_path) as scene:
            assert (await committed(scene.client.ask, "far")).ext_fields == {"offset": "1"}

    await main()


async def test_a_query_for_an_odd_number_of_messages_is_answered(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with attacked(tmp_path) as scene:
        for n in range(3):
            await scene.client.send("T", b"%d" % n, KEYS="k")
        good = headers.QueryMessageHeader("T", "k", 32, 0, 2**63 - 1)
        for changes, count in (
            ({}, 3),
            ({"max_count": 2**31 - 1}, 3),
            ({"max_count": 0}, 0),
            ({"max_count": -1}, 0),
            ({"max_count": -(2**31)}, 0),
            ({"begin_time": -(2**63)}, 3),
            ({"begin_time": 2**63 - 1}, 0),
            ({"end_time": -(2**63)}, 0),
            ({"begin_time": 9, "end_time": 8}, 0),
        ):
            header: Any = replace(good, **changes)
            answer = await scene.client.ask(RequestCode.QUERY_MESSAGE, header)
            assert answer.code == (ResponseCode.SUCCESS if count else ResponseCode.QUERY_NOT_FOUND), changes
            assert len(bodies(answer)) == count
    assert_log_is_sound(caplog)


async def test_a_message_that_cannot_be_read_keeps_no_consumer_from_the_next(tmp_path: Path) -> None:
    async with attacked(tmp_path) as scene:
        await scene.client.send("T", b"before")
        lying = replace(send_header("T"), sys_flag=sys_flag.compressed_with(0, CompressionType.ZLIB))
        for body in (b"not compressed", zlib.compress(bytes(DECOMPRESSED_MAX + 1))):
            assert says(await scene.client.ask(V2, lying, body), ResponseCode.SUCCESS)
        await scene.client.send("T", b"behind")
        got: dict[int, bytes] = {}
        async with PullConsumer(scene.live.name_server, "g") as consumer:
            queue = (await consumer.queues("T"))[0]
            for begin in (0, 2, 3):
                with contextlib.suppress(UndecodableBody):
                    async for message in consumer.messages(queue, begin):
                        got[message.queue_offset] = message.body
        assert got == {0: b"before", 3: b"behind"}


async def test_a_message_that_was_retried_too_often_still_goes_to_the_dead_letters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with attacked(tmp_path) as scene:
        await scene.client.heartbeat("g", "T")
        for times in (2**31 - 1, -(2**31)):
            answer = await scene.client.ask(V2, replace(send_header("T"), reconsume_times=times), b"body")
            at = parse_offset_message_id(answer.ext_fields["msgId"]).physical_offset
            for level in (0, -1, 2**31 - 1, -(2**31)):
                back = headers.SendBackHeader(at, "g", level)
                answer = await scene.client.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back)
                assert says(answer, ResponseCode.SUCCESS)
        assert len(await read(scene.client, "%RETRY%g", 0)) == 1  # the other waits for the longest delay
    assert_log_is_sound(caplog)
