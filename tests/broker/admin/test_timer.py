import struct
from pathlib import Path

import pytest
from tests.broker.conftest import serving
from tests.kit.timed_messages import pass_time, send

from cometmq.broker.admin import timer
from cometmq.format.java import fastjson
from cometmq.wire.codes import RequestCode, ResponseCode

CHECKPOINT, METRICS = RequestCode.GET_TIMER_CHECK_POINT, RequestCode.GET_TIMER_METRICS


async def test_the_checkpoint_has_the_seven_numbers_that_a_slave_reads(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.parts.timed_messages.load()
        assert (await bench.ask(CHECKPOINT)).body == bytes(56)
        await send(bench, TIMER_DELAY_SEC="60")
        await pass_time(bench, 1_000)
        await bench.parts.timed_messages.save()
        answer = await bench.ask(CHECKPOINT)
        read_time, log_end, offset, master_offset, state, time, counter = struct.unpack(">7q", answer.body)
        now_ms = bench.clock.now_ms()
        assert now_ms - 1_000 < read_time <= now_ms
        assert (log_end, offset, master_offset, state, time, counter) == (52, 1, 1, 0, now_ms, 1)


async def test_the_messages_that_wait_are_counted_by_topic(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.parts.timed_messages.load()
        assert fastjson.loads((await bench.ask(METRICS)).body)["timingCount"] == {}
        due = str(bench.clock.now_ms() + 60_000)
        for topic, count in (("T", 2), ("U", 3)):
            for number in range(count):
                await send(bench, topic=topic, UNIQ_KEY=f"{number}", TIMER_DELIVER_MS=due)
        await send(bench, topic="U", TIMER_DELAY_SEC="90")
        await send(bench, topic="T", TIMER_DEL_UNIQKEY="T+1", TIMER_DELIVER_MS=due)
        await pass_time(bench, 1_000)
        body, now_ms = (await bench.ask(METRICS)).body, bench.clock.now_ms()
        assert body.decode() == (
            '{"dataVersion":{"counter":0,"stateVersion":0,"timestamp":0},"timingCount":{'
            f'"T":{{"count":1,"timeStamp":{now_ms}}},"U":{{"count":4,"timeStamp":{now_ms}}}}}}}'
        )
        await pass_time(bench, 70_000)
        assert fastjson.loads((await bench.ask(METRICS)).body)["timingCount"]["U"]["count"] == 1


async def test_very_many_are_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timer, "COUNTED_MAX", 1)
    async with serving(tmp_path) as bench:
        await bench.parts.timed_messages.load()
        for _ in range(2):
            await send(bench, TIMER_DELAY_SEC="60")
        await pass_time(bench, 1_000)
        answer = await bench.ask(METRICS)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == "2 timed messages wait, at most 1 are counted by topic"
