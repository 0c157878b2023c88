"""What pops and acknowledgements cost the broker's loop, from the bytes read to the bytes of the answers.

    python -m benches.bench_pops

Frames as the Java client writes them are given to a connection that has no socket. ``pop of 32`` finds 32
messages in one queue, which are in memory; ``pop of 1`` finds one. ``ack``: one request for each message, of
check points of 32 messages each or of one, some requests in a read. ``batch ack of 32``: one request for all
messages of a check point. ``change of a time``: one request for each message. ``send`` is there for
comparison, and the null answers show what is possible: they parse requests and answer them at once, and store
nothing. ``later`` is what the timer and the revive do, for a stored check point or acknowledgement: of pops
that were acknowledged at once, or a second later, or not all. Figures are µs of the loop's thread for a
request, the least of some rounds.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import uvloop
from benches.bench_bulk_sends import connected, frame_of, wait_for_topics
from benches.bench_pulls import cut, rounds
from benches.null_broker import NullAcks, answer_null_pop
from tests.broker.conftest import serving

from cometmq import kernels
from cometmq.broker.door import Door
from cometmq.broker.handlers import Requests
from cometmq.broker.state.pop.handles import HandlePoint
from cometmq.broker.timed.revive import Revive
from cometmq.broker.timed.timed_messages import TimedMessages
from cometmq.format.pop.bit_set import encode as encode_bits
from cometmq.format.pop.check_point import CheckPoint
from cometmq.format.pop.names import RetryFlag
from cometmq.format.pop.receipt import ReceiptHandle
from cometmq.kernels.frames.fields import FrameKind
from cometmq.net.server import Server, Session
from cometmq.store.settings import StoreSettings
from cometmq.wire.bodies import BatchAckEntry, BatchAckRequest
from cometmq.wire.bodies import encode as encode_body
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, encode

PER_READ: Final = (1, 16, 64)
"""How many requests a read brings."""
POPPED: Final = 32
"""Messages of a large check point."""
MESSAGES: Final = 1_024
"""How many messages a round is about."""
QUEUES: Final = 8
POINTS_LATER: Final = 500
ROUNDS_LATER: Final = 6
ADDED_MS: Final = 1_000
"""By then the timer adds what is new."""
LATER: Final = (
    ("acknowledged at once", 0, POPPED),
    ("acknowledged a second later", ADDED_MS, POPPED),
    ("not all acknowledged", 0, POPPED - 1),
)
"""Names, and the arguments of ``later``."""
INVISIBLE_MS: Final = 5_000
GROUP: Final = "bench-consumer"
TOPIC: Final = "bench-0"


def main() -> None:
    """Run all; print a table."""
    kernels.load()
    costs: dict[str, float] = {}
    for cases in (real_cases, timed_cases, null_cases):
        with tempfile.TemporaryDirectory(prefix="cometmq-pops-") as folder:
            costs |= uvloop.run(measure(Path(folder), cases))
    for name, wait_ms, acked in LATER:
        with tempfile.TemporaryDirectory(prefix="cometmq-pops-") as folder:
            costs[f"later, {name}"] = uvloop.run(later(Path(folder), wait_ms, acked))
    costs["pop of 32, a message"] = costs["pop of 32"] / 32
    for name, cost in costs.items():
        print(f"{name:<48}{cost:>8.2f} µs", flush=True)


Cases = Mapping[str, Callable[[], Awaitable[float]]]


async def measure(directory: Path, cases: "Callable[[Bench], Cases]") -> dict[str, float]:
    """Return what each case costs, µs."""
    costs: dict[str, list[float]] = {}
    with connected(directory, StoreSettings(), is_null=False) as (server, session, store):
        await wait_for_topics(store)
        bench = Bench(server, session)
        await bench.sends(PER_READ[-1])  # what handles name must be there
        planned = cases(bench)
        async for _ in rounds():
            for name, case in planned.items():
                costs.setdefault(name, []).append(await case())
    return {name: min(values) for name, values in costs.items()}


def real_cases(bench: "Bench") -> Cases:
    """Return the cases of a broker."""
    return {
        **{f"send, {count} in a read": partial(bench.sends, count) for count in PER_READ},
        "pop of 32": partial(bench.pops, 32),
        "pop of 1": partial(bench.pops, 1),
        **{f"ack, {count} in a read": partial(bench.acks, count, POPPED) for count in PER_READ},
        **{
            f"ack, {count} in a read, each of another pop": partial(bench.acks, count, 1)
            for count in PER_READ[1:]
        },
    }


def timed_cases(bench: "Bench") -> Cases:
    """Return cases of a broker of their own: each change leaves work for the timer to the next rounds."""
    return {"batch ack of 32": bench.batch_acks, "change of a time": bench.changes}


def null_cases(bench: "Bench") -> Cases:
    """Return the cases of one that stores nothing."""
    bench.store_nothing()
    return {
        "null pop": partial(bench.pops, 1),
        **{f"null ack, {count} in a read": partial(bench.acks, count, POPPED) for count in PER_READ},
    }


class Bench:
    """Frames for one connection."""

    def __init__(self, server: Server, session: Session) -> None:
        self._server = server
        self._session = session
        self._sent = 0

    def store_nothing(self) -> None:
        """Answer pops and acknowledgements without looking at the store."""
        handlers = {RequestCode.POP_MESSAGE: answer_null_pop}
        self._server.handler = Requests(lambda *_: None, handlers, lambda *_: None, [])
        door = self._server.bulk
        assert isinstance(door, Door)
        self._server.bulk = Door({**door.takers, FrameKind.ACK: NullAcks()})

    async def sends(self, per_read: int) -> float:
        """Send messages to each queue."""
        frames = [frame_of(0, n % QUEUES, self._number()) for n in range(MESSAGES)]
        return await self._timed(frames, per_read)

    async def pops(self, count: int) -> float:
        """Pop all of a round, queue by queue."""
        fields = {
            "consumerGroup": GROUP,
            "topic": TOPIC,
            "maxMsgNums": str(count),
            "invisibleTime": "60000",
            "pollTime": "0",
            "bornTime": "0",
            "initMode": "0",
            "expType": "TAG",
            "exp": "*",
            "order": "false",
            "bname": "bench",
        }
        frames = [
            self._command(RequestCode.POP_MESSAGE, fields | {"queueId": str(n % QUEUES)})
            for n in range(MESSAGES // 32)
        ]
        return await self._timed(frames, 1)

    async def acks(self, per_read: int, popped: int) -> float:
        """Acknowledge messages of check points of so many each; queues have fewer, so offsets repeat."""
        frames = [self._command(RequestCode.ACK_MESSAGE, fields_of(handle)) for handle in handles_of(popped)]
        return await self._timed(frames, per_read)

    async def batch_acks(self) -> float:
        """Acknowledge all messages of large check points."""
        entries = [
            BatchAckEntry(
                *(GROUP, TOPIC, "0", handle.begin_offset, handle.queue_id, handle.revive_queue_id),
                *(handle.pop_time_ms, handle.invisible_ms, encode_bits(range(POPPED))),
            )
            for handle in handles_of(POPPED)[::POPPED]
        ]
        bodies = [encode_body(BatchAckRequest("bench", [entry])) for entry in entries]
        return await self._timed(
            [self._command(RequestCode.BATCH_ACK_MESSAGE, {}, body) for body in bodies], 1
        )

    async def changes(self) -> float:
        """Change the invisible time of messages of large check points."""
        code = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
        frames = [
            self._command(code, fields_of(handle) | {"invisibleTime": "30000"})
            for handle in handles_of(POPPED)
        ]
        return await self._timed(frames, 1)

    def _command(self, code: RequestCode, fields: Mapping[str, str], body: bytes = b"") -> bytes:
        return encode(Command(code, self._number(), ext_fields=dict(fields), body=body))

    def _number(self) -> int:
        self._sent += 1
        return self._sent

    async def _timed(self, frames: Sequence[bytes], per_read: int) -> float:
        """Return the µs of one frame, of those handled as some in each read."""
        reads = cut(frames, per_read)
        began = time.thread_time_ns()
        for data in reads:
            self._session.data_received(data)
            while self._session.has_received:
                self._server.turn.handle()
            await asyncio.sleep(0)  # what is left to the end of the turn
        return (time.thread_time_ns() - began) / 1000 / len(frames)


async def later(directory: Path, wait_ms: int, acked: int) -> float:
    """Return what the timer and the revive cost for a record, µs: a check point or one of its two others.

    Args:
        wait_ms: how long after the check points the acknowledgements come, …
        acked: … of so many of POPPED messages.
    """
    costs = []
    async with serving(directory) as broker:
        timed, revive = broker.parts.timed_messages, broker.parts.revive
        await timed.load()
        for _ in range(ROUNDS_LATER):
            broker.clock.advance(ADDED_MS)
            points = [_point(number, broker.clock.now_ms()) for number in range(POINTS_LATER)]
            revive.log.append([revive.log.check_point(point, point.queue_id) for point in points])
            broker.clock.advance(wait_ms)
            cost_ns = await _spent(timed) if wait_ms else 0
            handles = [HandlePoint(point.key, point.revive_time_ms, point.queue_id) for point in points]
            for distances in (range(24), range(24, acked)):
                revive.log.append(
                    [
                        revive.log.ack(handle, [handle.key.begin_offset + distance for distance in distances])
                        for handle in handles
                    ]
                )
            broker.clock.advance(ADDED_MS)
            cost_ns += await _spent(timed)
            broker.clock.advance(INVISIBLE_MS + 2_000)
            cost_ns += await _spent(timed)
            await asyncio.wrap_future(broker.store.wait_flushed())
            timed.delivered_ms()
            cost_ns += await _spent(revive)
            costs.append(cost_ns / 1000 / (3 * POINTS_LATER))
    return min(costs)


def _point(number: int, now_ms: int) -> CheckPoint:
    """Return a check point of POPPED messages that are popped now."""
    place = number % QUEUES, number * POPPED
    return CheckPoint(TOPIC, GROUP, *place, now_ms, INVISIBLE_MS, tuple(range(POPPED)), "bench")


async def _spent(work: TimedMessages | Revive) -> int:
    """Run all that is due now; return the ns of this thread that it takes."""
    began = time.thread_time_ns()
    while work.wait_ms() == 0:
        await work.round()
    return time.thread_time_ns() - began


def handles_of(popped: int) -> list[ReceiptHandle]:
    """Return the handles of messages of check points of so many each."""
    now_ms, offsets = int(time.time() * 1000), MESSAGES // QUEUES
    return [
        ReceiptHandle(
            *(point % offsets, now_ms, 60_000, point % 8, RetryFlag.NONE, "bench"), point % QUEUES, offset
        )
        for point in range(MESSAGES // popped)
        for offset in range(popped)
    ]


def fields_of(handle: ReceiptHandle) -> dict[str, str]:
    """Return the fields of a request about a message that was popped."""
    return {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": str(handle.queue_id),
        "extraInfo": str(handle),
        "offset": str(handle.offset),
        "bname": "bench",
    }


if __name__ == "__main__":
    main()
