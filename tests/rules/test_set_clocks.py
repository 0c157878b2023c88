"""An administrator sets the clock: no lease, no silence and no wait of a peer goes by that."""

from pathlib import Path

import pytest
from tests.broker.conftest import pull_header, serving

from cometmq.message import MessageQueue
from cometmq.wire.bodies import LockRequest, LockResponse, decode
from cometmq.wire.codes import RequestCode, ResponseCode

YEAR_MS = 365 * 24 * 3_600_000
WAIT_MS = 15_000


@pytest.mark.parametrize("step_ms", [YEAR_MS, -YEAR_MS])
async def test_peers_stay_known_locks_held_and_pulls_waiting_for_the_time_that_passes(
    tmp_path: Path, step_ms: int
) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", b"0")
        await bench.heartbeat("cg", "T")
        lock = LockRequest("c", "cg", [MessageQueue("T", "broker-a", 0)])
        taken = await bench.ask(RequestCode.LOCK_BATCH_MQ, body=lock)
        assert len(decode(LockResponse, taken.body).queues) == 1
        held = bench.ask_later(RequestCode.PULL_MESSAGE, pull_header("T", 1, wait_ms=WAIT_MS))
        other = LockRequest("other", "cg", [MessageQueue("T", "broker-a", 0)])
        assert not decode(LockResponse, (await bench.ask(RequestCode.LOCK_BATCH_MQ, body=other)).body).queues

        bench.clock.set_wall(bench.clock.now_ms() + step_ms)
        bench.parts.clients.close_silent()
        bench.parts.pulls.expire()
        assert not decode(LockResponse, (await bench.ask(RequestCode.LOCK_BATCH_MQ, body=other)).body).queues
        assert bench.parts.consumers.find("cg") is not None
        assert bench.parts.pulls.held_count == 1 and not held.done()

        bench.clock.advance(WAIT_MS)
        bench.parts.pulls.expire()
        assert (await held).code == ResponseCode.PULL_NOT_FOUND
        bench.clock.advance(60_000)
        granted = await bench.ask(RequestCode.LOCK_BATCH_MQ, body=other)
        assert len(decode(LockResponse, granted.body).queues) == 1
