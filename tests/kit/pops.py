"""Pops: held, answered, acknowledged, come again."""

import asyncio
import base64
import json
from collections.abc import Sequence
from typing import Any

from tests.broker.conftest import Bench, Client
from tests.broker.halves import records
from tests.broker.pops import (
    Handed,
    pop_header,
)

from cometmq.format.pop.offset_info import parse_begin_offsets, parse_offsets
from cometmq.format.pop.receipt import ReceiptHandle
from cometmq.format.record import Record
from cometmq.wire import headers as h
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command

POLL_MS = 15_000
POP = RequestCode.POP_MESSAGE


async def held(client: Client, **changes: Any) -> "asyncio.Future[Command]":
    """Pop, and return when the broker has the pop."""
    answer = client.ask_later(POP, pop_header(**{"poll_time": POLL_MS} | changes))
    await client.ask(RequestCode.GET_BROKER_CONFIG)
    return answer


async def turns(count: int = 5) -> None:
    """Run the loop for some turns."""
    for _ in range(count):
        await asyncio.sleep(0)


async def answered(answers: "Sequence[asyncio.Future[Command]]", count: int) -> None:
    """Wait until so many are answered, and let the loop work: no other one may be."""
    while sum(answer.done() for answer in answers) < count:
        waiting = [answer for answer in answers if not answer.done()]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    await turns()


async def topic(bench: Bench, name: str = "T") -> None:
    bench.parts.topics.find_or_create(name, 4)
    await bench.parts.topics.settled()


NOTIFICATION = RequestCode.NOTIFICATION


def header(bench: Bench, **changes: Any) -> h.NotificationHeader:
    values: dict[str, Any] = {
        "consumer_group": "g",
        "topic": "T",
        "queue_id": -1,
        "poll_time": 0,
        "born_time": bench.clock.now_ms(),
    }
    return h.NotificationHeader(**values | changes)


async def ask(bench: Bench, **changes: Any) -> h.NotificationResponseHeader:
    answer = await bench.ask(NOTIFICATION, header(bench, **changes))
    assert answer.code == ResponseCode.SUCCESS
    return h.parse(h.NotificationResponseHeader, answer.ext_fields)


HAS, HAS_NOT = h.NotificationResponseHeader(True), h.NotificationResponseHeader(False)


async def ack_batch(bench: Bench, *entries: dict[str, Any], broker: str = "broker-a") -> Command:
    body = json.dumps({"brokerName": broker, "acks": entries}).encode()
    return await bench.ask(RequestCode.BATCH_ACK_MESSAGE, body=body)


def entry(message: Handed, bits: int, **changes: Any) -> dict[str, Any]:
    handle = message.handle
    data = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
    values = {
        "c": "g",
        "t": "T",
        "r": str(int(handle.retry_flag)),
        "so": handle.begin_offset,
        "q": handle.queue_id,
        "rq": handle.revive_queue_id,
        "pt": handle.pop_time_ms,
        "it": handle.invisible_ms,
        "b": base64.b64encode(data).decode(),
    }
    return values | changes


INVISIBLE_MS = 5_000
RETRY = "%RETRY%g_T"
REVIVE = "rmq_sys_REVIVE_LOG_DefaultCluster"


async def pass_time(bench: Bench, ms: int, step_ms: int = 500) -> None:
    """Advance the time step by step, as the broker sees it."""
    for passed in range(0, ms, step_ms):
        bench.clock.advance(min(step_ms, ms - passed))
        await rounds(bench)


async def rounds(bench: Bench) -> None:
    """Deliver and revive what is due, and wait until it can be read."""
    timed, revive, store = bench.parts.timed_messages, bench.parts.revive, bench.store
    while True:
        while timed.wait_ms() == 0:
            await timed.round()
        while revive.wait_ms() == 0:
            await revive.round()
        if store.dispatched_offset == store.written_offset:
            return
        await asyncio.wrap_future(store.wait_flushed())
        await asyncio.sleep(0)


async def pop(
    bench: Bench, count: int = 32, invisible_ms: int = INVISIBLE_MS, queue_id: int = 0
) -> list[ReceiptHandle]:
    """Pop messages of T for the group g, and return their handles."""
    header = h.PopHeader("g", "T", queue_id, count, invisible_ms, 0, bench.clock.now_ms(), 0)
    answer = await bench.ask(RequestCode.POP_MESSAGE, header)
    if answer.code != ResponseCode.SUCCESS:
        return []
    named = answer.ext_fields
    begins = parse_begin_offsets(named["startOffsetInfo"])
    return [
        ReceiptHandle(
            begins[flag, queue],
            int(named["popTime"]),
            int(named["invisibleTime"]),
            int(named["reviveQid"]),
            flag,
            "broker-a",
            queue,
            offset,
        )
        for (flag, queue), offsets in parse_offsets(named["msgOffsetInfo"]).items()
        for offset in offsets
    ]


async def acknowledge(bench: Bench, handle: ReceiptHandle) -> None:
    header = h.AckHeader("g", "T", handle.queue_id, str(handle), handle.offset)
    answer = await bench.ask(RequestCode.ACK_MESSAGE, header)
    assert answer.code == ResponseCode.SUCCESS, answer


async def begin(bench: Bench, *bodies: bytes) -> None:
    """Load the timer, and send messages to T."""
    await bench.parts.timed_messages.load()
    for body in bodies:
        answer = await bench.send("T", body, KEYS="k", TAGS="a")
        assert answer.code == ResponseCode.SUCCESS, answer


def returned(bench: Bench) -> list[Record]:
    return records(bench, RETRY, 0)


def bodies(bench: Bench) -> list[bytes]:
    return [record.body for record in returned(bench)]


def quiet(**settings: Any) -> dict[str, Any]:
    """Return settings by which no pop reads the retry topic."""
    return {"pop_from_retry_probability": 0} | settings
