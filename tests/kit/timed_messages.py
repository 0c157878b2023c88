"""Timed messages of a broker whose clock is turned."""

from tests.broker.conftest import Bench
from tests.broker.halves import records

from cometmq.wire.codes import ResponseCode

TIMER = "rmq_sys_wheel_timer"


async def send(bench: Bench, body: bytes = b"x", topic: str = "T", **named: str) -> None:
    answer = await bench.send(topic, body, queue_id=2, **named)
    assert answer.code == ResponseCode.SUCCESS, answer


async def pass_time(bench: Bench, ms: int) -> None:
    """Advance the time second by second, as the broker sees it."""
    timed = bench.parts.timed_messages
    for passed in range(0, ms + 1, 1_000):
        bench.clock.advance(min(1_000, ms - passed))
        while timed.wait_ms() == 0:
            await timed.round()


def delivered(bench: Bench, topic: str = "T") -> list[bytes]:
    return [message.body for message in records(bench, topic, 2)]
