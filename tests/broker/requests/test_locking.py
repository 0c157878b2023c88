import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.broker.conftest import Bench, serving

from cometmq.message import MessageQueue
from cometmq.wire.bodies import LockRequest, LockResponse, decode
from cometmq.wire.codes import RequestCode, ResponseCode

QUEUES = [MessageQueue("T", "broker-a", n) for n in range(2)]


async def lock(bench: Bench, client_id: str, *wanted: MessageQueue) -> list[MessageQueue]:
    request = LockRequest(client_id, "cg", list(wanted or QUEUES))
    answer = await bench.ask(RequestCode.LOCK_BATCH_MQ, body=request)
    return decode(LockResponse, answer.body).queues


async def test_queues_are_locked_for_one_client_of_a_group(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        assert await lock(bench, "a") == QUEUES
        assert await lock(bench, "b") == []
        await bench.ask(RequestCode.UNLOCK_BATCH_MQ, body=LockRequest("a", "cg", QUEUES[:1]))
        assert await lock(bench, "b") == QUEUES[:1]


async def test_who_has_a_lock_is_on_the_disk_before_it_is_told(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        assert await lock(bench, "a") == QUEUES
    async with serving(tmp_path) as bench:  # nothing was saved at the end: as after a kill
        assert await lock(bench, "b") == []
        assert await lock(bench, "a") == QUEUES


async def test_many_who_ask_at_once_are_all_answered(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        each = [MessageQueue("T", "broker-a", n) for n in range(50)]
        answers = await asyncio.gather(*(lock(bench, f"c{one.queue_id}", one) for one in each))
        assert answers == [[one] for one in each]


async def test_locks_are_given_also_if_the_disk_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: dict[str, Any]) -> None:
        raise OSError("no space")

    async with serving(tmp_path) as bench:
        monkeypatch.setattr(bench.parts.locks, "write", refuse)
        assert await lock(bench, "a") == QUEUES
        assert await lock(bench, "b") == []


async def test_a_broker_that_stops_gives_no_locks(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.parts.lock_requests.stop()
        body = LockRequest("a", "cg", QUEUES)
        answer = await bench.ask(RequestCode.LOCK_BATCH_MQ, body=body)
        assert answer.code == ResponseCode.SYSTEM_BUSY
