"""Timed messages: when they come, how they wait, and that a stop, a kill or a loss of power loses none."""

import asyncio
from pathlib import Path

from tests.broker.conftest import Bench, serving
from tests.broker.halves import records

from cometmq.format import properties
from cometmq.wire.codes import ResponseCode

TIMER = "rmq_sys_wheel_timer"


async def send(bench: Bench, body: bytes = b"x", topic: str = "T", **named: str) -> None:
    answer = await bench.send(topic, body, queue_id=2, **named)
    assert answer.code == ResponseCode.SUCCESS, answer


async def pass_time(bench: Bench, ms: int) -> None:
    """Let time pass, second by second, as the broker sees it."""
    timed = bench.parts.timed_messages
    for passed in range(0, ms + 1, 1_000):
        bench.clock.advance(min(1_000, ms - passed))
        while timed.is_due:
            await timed.round()


def given_out(bench: Bench, topic: str = "T") -> list[bytes]:
    return [message.body for message in records(bench, topic, 2)]


def test_a_message_comes_when_it_is_due(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(tmp_path) as bench:
            await bench.parts.timed_messages.load()
            now = bench.clock.now_ms()
            await send(bench, b"later", TIMER_DELAY_SEC="10")
            await send(bench, b"sooner", TIMER_DELAY_MS="4500")
            await send(bench, b"at", TIMER_DELIVER_MS=str(now + 7_000))
            await send(bench, b"passed", TIMER_DELIVER_MS=str(now - 1))
            assert given_out(bench) == [b"passed"]
            await pass_time(bench, 4_000)
            assert given_out(bench) == [b"passed"]
            await pass_time(bench, 1_000)
            assert given_out(bench) == [b"passed", b"sooner"]
            await pass_time(bench, 6_000)
            assert given_out(bench) == [b"passed", b"sooner", b"at", b"later"]
            message = records(bench, "T", 2)[-1]
            named = properties.decode(message.properties)
            assert (named["TIMER_DELAY_SEC"], named["REAL_TOPIC"], named["REAL_QID"]) == ("10", "T", "2")
            out_ms = int(named["TIMER_OUT_MS"])
            assert out_ms == (now + 10_000 - 1) // 1000 * 1000
            assert out_ms + 1_000 <= int(named["TIMER_DEQUEUE_MS"]) <= out_ms + 2_000
            assert int(named["TIMER_ENQUEUE_MS"]) // 1000 in (now // 1000, now // 1000 + 1)

    asyncio.run(main())
