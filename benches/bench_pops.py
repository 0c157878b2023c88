"""What pops and acknowledgements cost the broker's loop, from the bytes read to the bytes of the answers.

    python -m benches.bench_pops

Frames as the Java client writes them are given to a connection that has no socket. ``pop of 32`` finds 32
messages in one queue, which are in memory; ``pop of 1`` finds one. ``ack``: one request for each message, 32
of them in a read, or one. ``send`` is there for comparison, as many in a read. What the timer and the revive
do later is not in it. Figures are µs of the loop's thread, the least of some rounds.
"""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import uvloop
from benches.bench_bulk_sends import connected, frame_of, wait_for_topics
from benches.bench_pulls import cut, rounds

from cometmq import kernels
from cometmq.net.server import Server, Session
from cometmq.store.settings import StoreSettings
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, encode

PER_READ: Final = 32
MESSAGES: Final = 1_024
"""How many messages a round is about."""
QUEUES: Final = 8
GROUP: Final = "bench-consumer"
TOPIC: Final = "bench-0"


def main() -> None:
    """Run all; print a table."""
    kernels.load()
    with tempfile.TemporaryDirectory(prefix="cometmq-pops-") as folder:
        costs = uvloop.run(measure(Path(folder)))
    for name, cost in costs.items():
        print(f"{name:<28}{cost:>8.2f} µs", flush=True)


async def measure(directory: Path) -> dict[str, float]:
    """Give what each case costs, µs."""
    costs: dict[str, list[float]] = {}
    with connected(directory, StoreSettings(), is_null=False) as (server, session, store):
        await wait_for_topics(store)
        bench = Bench(server, session)
        async for _ in rounds():
            costs.setdefault("send", []).append(await bench.sends(PER_READ))
            costs.setdefault("send, one in a read", []).append(await bench.sends(1))
            costs.setdefault("pop of 32", []).append(await bench.pops(32))
            costs.setdefault("pop of 1", []).append(await bench.pops(1))
            costs.setdefault("ack", []).append(await bench.acks(PER_READ))
            costs.setdefault("ack, one in a read", []).append(await bench.acks(1))
    least = {name: min(values) for name, values in costs.items()}
    return least | {"pop of 32, a message": least["pop of 32"] / 32}


class Bench:
    """Frames for one connection."""

    def __init__(self, server: Server, session: Session) -> None:
        self._turn = server.turn
        self._session = session
        self._sent = 0

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
            self._command(RequestCode.POP_MESSAGE, **fields, queueId=str(n % QUEUES))
            for n in range(MESSAGES // 32)
        ]
        return await self._timed(frames, 1)

    async def acks(self, per_read: int) -> float:
        """Acknowledge messages."""
        now_ms = int(time.time() * 1000)
        frames = [
            self._command(
                RequestCode.ACK_MESSAGE,
                consumerGroup=GROUP,
                topic=TOPIC,
                queueId=str(n % QUEUES),
                extraInfo=f"{n // QUEUES} {now_ms} 60000 {n % 8} 0 bench {n % QUEUES} {n // QUEUES}",
                offset=str(n // QUEUES),
                bname="bench",
            )
            for n in range(MESSAGES)
        ]
        return await self._timed(frames, per_read)

    def _command(self, code: RequestCode, **fields: str) -> bytes:
        return encode(Command(code, self._number(), ext_fields=fields))

    def _number(self) -> int:
        self._sent += 1
        return self._sent

    async def _timed(self, frames: Sequence[bytes], per_read: int) -> float:
        """Have frames handled, some in each read; give the µs of one."""
        reads = cut(frames, per_read)
        began = time.thread_time_ns()
        for data in reads:
            self._session.data_received(data)
            self._turn.handle()
            await asyncio.sleep(0)  # acknowledgements are stored at the end of the turn
        return (time.thread_time_ns() - began) / 1000 / len(frames)


if __name__ == "__main__":
    main()
