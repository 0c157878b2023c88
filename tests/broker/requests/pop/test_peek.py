from pathlib import Path
from typing import Any

from tests.broker.conftest import Bench, bodies, serving
from tests.broker.pops import come_back, committed, popped, stored
from tests.kit.pops import topic

from cometmq.format.record import decode_many
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command
from cometmq.wire.headers import PeekHeader, PopResponseHeader, fields, parse


async def peek(bench: Bench, count: int = 32, queue_id: int = -1, **changes: Any) -> Command:
    values: dict[str, Any] = {"topic": "T", "consumer_group": "g"} | changes
    return await bench.ask(
        RequestCode.PEEK_MESSAGE, PeekHeader(queue_id=queue_id, max_msg_nums=count, **values)
    )


async def test_a_peek_reads_without_handing_out(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        for n in range(3):
            await bench.send("T", b"%d" % n, 1)
        for _ in range(2):
            answer = await peek(bench, 2)
            assert (answer.code, answer.remark, bodies(answer)) == (0, "FOUND", [b"0", b"1"])
            assert parse(PopResponseHeader, answer.ext_fields) == PopResponseHeader(0, 0, 0, 1)
        assert stored(bench) == [] and committed(bench) == {}
        await popped(bench, max_msg_nums=1)
        assert bodies(await peek(bench, queue_id=1)) == [b"1", b"2"]
        nothing = await peek(bench, queue_id=0)
        assert (nothing.code, nothing.body) == (ResponseCode.PULL_NOT_FOUND, b"")


async def test_messages_of_the_retry_topic_come_under_its_name(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await topic(bench)
        await topic(bench, "%RETRY%g_T")
        come_back(bench, "%RETRY%g_T", b"again")
        (record,) = decode_many((await peek(bench)).body)
        assert (record.topic, record.body) == ("%RETRY%g_T", b"again")


async def test_what_does_not_exist_is_refused_with_a_header(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        answer = await peek(bench, topic="None")
        assert (answer.code, answer.ext_fields) == (
            ResponseCode.TOPIC_NOT_EXIST,
            fields(PopResponseHeader(0, 0, 0, 0)),
        )
