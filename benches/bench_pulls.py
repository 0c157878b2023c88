"""What pulls cost the broker's loop, from the bytes that were read to the bytes of the answers.

    python -m benches.bench_pulls

Frames as the Java client writes them, of 64 topics with 8 queues, are given to a connection that has no
socket. ``behind``: each pull finds 32 messages that are in memory; or 10, and few pulls come together, as
of a lite pull consumer. ``caught up``: each queue's pull is held; then a message comes to each, wakes it, and
the next pull is held: what the message itself costs is taken off, as it is measured with nobody there.
``query``: by id, and by unique key. Figures are µs of the loop's thread, the least of some rounds.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import uvloop
from benches.bench_bulk_sends import QUEUES, TOPICS, connected, frame_of, wait_for_topics

from cometmq import kernels
from cometmq.net.server import Server, Session
from cometmq.store.settings import StoreSettings
from cometmq.wire.bodies import ConsumerData, Heartbeat, tag_subscription
from cometmq.wire.bodies import encode as encode_body
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, SerializeType, encode

ROUNDS: Final = 25
PER_READ: Final = 64
"""How many frames one read brings."""
COUNT: Final = 32
FEW_PER_READ: Final = 8
FEW: Final = 10
GROUP: Final = "bench-consumer"
VERSION: Final = 1
DEPTH: Final = 320
"""How many messages each queue has for those who are behind."""
ALL: Final = [(topic, queue) for queue in range(QUEUES) for topic in range(TOPICS)]


def main() -> None:
    """Run all; print a table."""
    kernels.load()
    print(f"{'':<28}{'JSON':>8}{'binary':>8}   µs")
    with tempfile.TemporaryDirectory(prefix="cometmq-pulls-") as folder:
        costs = {
            kind: uvloop.run(measure(Path(folder) / kind.name, kind))
            for kind in (SerializeType.JSON, SerializeType.ROCKETMQ)
        }
    for name in costs[SerializeType.JSON]:
        print(f"{name:<28}" + "".join(f"{cost[name]:>8.2f}" for cost in costs.values()), flush=True)


async def measure(directory: Path, kind: SerializeType) -> dict[str, float]:
    """Return what each case costs, µs."""
    with connected(directory, StoreSettings(), is_null=False) as (server, session, store):
        await wait_for_topics(store)
        bench = Bench(server, session, kind)
        alone = min([bench.sends() async for _ in rounds()])
        for _ in range(DEPTH):
            bench.sends()
        behind = min([bench.behind(COUNT, PER_READ) async for _ in rounds()])
        behind_by_few = min([bench.behind(FEW, FEW_PER_READ) async for _ in rounds()])
        bench.hold()
        woken = min([await bench.woken() async for _ in rounds()])
        by_id = min([bench.by_id() async for _ in rounds()])
        by_key = min([bench.by_key() async for _ in rounds()])
    return {
        "pull of 32 messages": behind,
        "… a message": behind / COUNT,
        "pull of 10, 8 in a read": behind_by_few,
        "held, woken, held again": woken - alone,
        "query by id": by_id,
        "query by unique key": by_key,
    }


async def rounds() -> AsyncIterator[int]:
    """Run rounds with a turn of the loop between them."""
    for number in range(ROUNDS):
        await asyncio.sleep(0)
        yield number


class Bench:
    """Frames for one connection, and where its consumer is."""

    def __init__(self, server: Server, session: Session, kind: SerializeType) -> None:
        self._turn = server.turn
        self._session = session
        self._kind = kind
        self._sent = self._last = 0
        self._offset = 0
        self._end = 1  # each queue has one message
        subscriptions = [tag_subscription(f"bench-{topic}", "*", VERSION) for topic in range(TOPICS)]
        heartbeat = Heartbeat("bench", consumers=[ConsumerData(GROUP, subscriptions=subscriptions)])
        session.data_received(encode(Command(RequestCode.HEART_BEAT, body=encode_body(heartbeat))))
        server.turn.handle()

    def sends(self) -> float:
        """Send a message to each queue."""
        self._end += 1
        frames = [frame_of(topic, queue, self.number()) for topic, queue in ALL]
        self._last = self._sent
        return self._timed(frames)

    def behind(self, count: int, per_read: int) -> float:
        """Pull from each queue what is there."""
        offset, self._offset = self._offset, (self._offset + count) % (DEPTH - COUNT)
        frames = [self.pull(topic, queue, offset, count) for topic, queue in ALL]
        return self._timed(frames, per_read)

    def hold(self) -> None:
        """Send a pull to be held for each queue."""
        self._timed([self.pull(topic, queue, self._end) for topic, queue in ALL])

    async def woken(self) -> float:
        """Wake the pulls by a message each, and have the next ones held."""
        end = self._end + 1
        sends = cut([frame_of(topic, queue, self.number()) for topic, queue in ALL])
        pulls = cut([self.pull(topic, queue, end) for topic, queue in ALL])
        self._end = end
        began = time.thread_time_ns()
        for some, others in zip(sends, pulls, strict=True):
            self._session.data_received(some)
            self._turn.handle()
            await asyncio.sleep(0)  # those that are woken are answered at the end of the turn
            self._session.data_received(others)
            self._turn.handle()
        return (time.thread_time_ns() - began) / 1000 / len(ALL)

    def by_id(self) -> float:
        """Look for messages by where they are."""
        frame = self.command(RequestCode.VIEW_MESSAGE_BY_ID, offset="0", topic="bench-0")
        return self._timed([frame] * len(ALL))

    def by_key(self) -> float:
        """Look for messages by their unique keys."""
        fields = {"topic": f"bench-{TOPICS - 1}", "maxNum": "32", "_UNIQUE_KEY_QUERY": "true"}
        key = f"AC11000254A0251A69D73C0C{self._last:08X}"
        frame = self.command(
            RequestCode.QUERY_MESSAGE, **fields, key=key, beginTimestamp="0", endTimestamp=str(2**63 - 1)
        )
        return self._timed([frame] * len(ALL))

    def pull(self, topic: int, queue: int, offset: int, count: int = COUNT) -> bytes:
        """Build a pull's frame."""
        return self.command(
            RequestCode.PULL_MESSAGE,
            queueId=str(queue),
            maxMsgNums=str(count),
            sysFlag="3",
            suspendTimeoutMillis="15000",
            bname="bench",
            queueOffset=str(offset),
            commitOffset=str(offset),
            requestSource="0",
            topic=f"bench-{topic}",
            subVersion=str(VERSION),
            consumerGroup=GROUP,
            maxMsgBytes="262144",
            expressionType="TAG",
        )

    def command(self, code: RequestCode, **fields: str) -> bytes:
        """Build a frame."""
        return encode(Command(code, self.number(), ext_fields=fields, serialize_type=self._kind))

    def number(self) -> int:
        """Return a number that no request has yet."""
        self._sent += 1
        return self._sent

    def _timed(self, frames: Sequence[bytes], per_read: int = PER_READ) -> float:
        """Pass frames to the broker, some in each read; return the µs of one."""
        reads = cut(frames, per_read)
        began = time.thread_time_ns()
        for data in reads:
            self._session.data_received(data)
            self._turn.handle()
        return (time.thread_time_ns() - began) / 1000 / len(frames)


def cut(frames: Sequence[bytes], per_read: int = PER_READ) -> list[bytes]:
    """Join the frames of each read."""
    return [b"".join(frames[at : at + per_read]) for at in range(0, len(frames), per_read)]


if __name__ == "__main__":
    main()
