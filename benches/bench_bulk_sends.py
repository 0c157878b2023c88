"""What a socket read of sends costs the broker's loop: so much each read, so much each message.

    python -m benches.bench_bulk_sends [directory]

Reads of 1 to 512 frames, as the Java client writes them (128 bytes, 64 topics of 8 queues), are given to a
connection that has no socket: from the bytes that were read to the bytes of the answers, with the CommitLog
on the disk of ``directory``. Figures are µs of the loop's thread. ``best`` is the least of many blocks of
reads, which no index and no roll to the next window falls into; ``all`` is the mean, with both. The line that
goes through the best of 1 and of 64 frames gives what a read and a message cost.

All threads share one core: the pool's commits are another thread's, and whether that thread gets the other
core, which differs from run to run, makes a third of what a read costs.
"""

import asyncio
import json
import os
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import uvloop
from benches.null_broker import NullSends
from tests.interop import remoting

from cometmq import kernels
from cometmq.broker.assembly import Assembly
from cometmq.broker.door import Door
from cometmq.broker.settings import BrokerSettings, Settings
from cometmq.io.clock import SystemClock
from cometmq.io.files import Disk
from cometmq.kernels.frames.fields import FrameKind
from cometmq.net.server import Server, Session
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore

FRAMES: Final = (1, 4, 16, 64, 512)
"""How many frames a read brings."""
BLOCK_MESSAGES: Final = 512
BLOCKS: Final = 60
TOPICS: Final = 64
QUEUES: Final = 8
BODY: Final = bytes(range(128))
SEND_MESSAGE_V2: Final = 310
PATHS: Final = {
    "file channel": StoreSettings(),
    "mapped file": StoreSettings(write_without_mmap=False),
    "pool": StoreSettings(transient_store_pool_enable=True),
    "null broker": StoreSettings(),
}


class Cost(NamedTuple):
    """What a read costs, µs."""

    best: float
    mean: float


class Wire:
    """The far end of a connection: drops what is sent."""

    size = 0

    def get_extra_info(self, _: str) -> tuple[str, int]:
        """Return the address."""
        return "127.0.0.1", 50123

    def set_write_buffer_limits(self, *, high: int, low: int) -> None:
        """It holds nothing."""

    def get_write_buffer_size(self) -> int:
        """It holds nothing."""
        return 0

    def pause_reading(self) -> None:
        """It says no more than it is asked for."""

    def resume_reading(self) -> None:
        """It says no more than it is asked for."""

    def is_closing(self) -> bool:
        """It stays."""
        return False

    def write(self, data: bytes) -> None:
        """Drop data."""
        self.size += len(data)

    def writelines(self, data: Sequence[bytes]) -> None:
        """Drop data."""
        self.size += sum(map(len, data))


def main() -> None:
    """Run all; print a table."""
    kernels.load()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    parent = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    print("µs per read: best (all)")
    print(f"{'frames in a read':<18}" + "".join(f"{count:>17}" for count in FRAMES) + "    read + message")
    for name, settings in PATHS.items():
        with tempfile.TemporaryDirectory(dir=parent) as directory:
            costs = uvloop.run(measure(Path(directory), settings, is_null=name == "null broker"))
        cells = "".join(f"{f'{cost.best:.1f} ({cost.mean:.1f})':>17}" for cost in costs.values())
        each = (costs[64].best - costs[1].best) / 63
        print(f"{name:<18}{cells}{costs[1].best - each:>11.1f} + {each:.2f}", flush=True)


async def measure(directory: Path, settings: StoreSettings, *, is_null: bool) -> dict[int, Cost]:
    """Return what reads cost, by how many frames they have."""
    reads = {count: [b"".join(block) for block in cut(frames_of(BLOCK_MESSAGES), count)] for count in FRAMES}
    times: dict[int, list[float]] = {count: [] for count in FRAMES}
    with connected(directory, settings, is_null=is_null) as (server, session, store):
        turn = server.turn
        await wait_for_topics(store)
        for _ in range(BLOCKS):
            for count in FRAMES:
                began = time.thread_time_ns()
                for data in reads[count]:
                    session.data_received(data)
                    while session.has_received:
                        turn.handle()
                times[count].append((time.thread_time_ns() - began) / 1000 / len(reads[count]))
                await asyncio.sleep(0)
    return {count: Cost(min(taken), sum(taken) / len(taken)) for count, taken in times.items()}


async def wait_for_topics(store: MessageStore) -> None:
    """Wait until the topics are saved, and the first messages stored: until then sends only wait."""
    topic, stored = f"bench-{TOPICS - 1}", asyncio.Event()
    store.on_arrival_of(topic, stored.set)
    if not store.max_queue_offset(topic, QUEUES - 1):
        await stored.wait()


@contextmanager
def connected(
    directory: Path, settings: StoreSettings, *, is_null: bool
) -> Iterator[tuple[Server, Session, MessageStore]]:
    """Open a broker's parts and a connection; each queue has had a message."""
    loop, clock, disk = asyncio.get_running_loop(), SystemClock(), Disk()
    with MessageStore.open(directory, settings, run_soon=loop.call_soon_threadsafe) as store:
        own = BrokerSettings.of(broker_name="bench")
        parts = Assembly(Settings(own, settings), store, disk, clock, ("127.0.0.1", 10911))
        server = Server(parts.requests)
        session = Session(server.shared)
        session.connection_made(Wire())  # type: ignore[arg-type]  # it is one as far as a session cares
        for topic in range(TOPICS):
            session.data_received(b"".join(frame_of(topic, queue, 0) for queue in range(QUEUES)))
            server.turn.handle()
        server.bulk = parts.bulk
        if is_null:
            server.bulk = Door({**parts.bulk.takers, FrameKind.SEND: NullSends.__new__(NullSends)})
        yield server, session, store
        session.connection_lost(None)


def frames_of(count: int) -> list[bytes]:
    """Build sends as one producer makes them, to queues as they come."""
    draw = random.Random(7)
    return [frame_of(draw.randrange(TOPICS), draw.randrange(QUEUES), number) for number in range(count)]


def frame_of(topic: int, queue_id: int, number: int) -> bytes:
    """Build a send."""
    fields = {
        "a": "bench-producer",
        "b": f"bench-{topic}",
        "c": "TBW102",
        "d": "8",
        "e": str(queue_id),
        "f": "0",
        "g": str(1_795_255_006_748 + number),
        "h": "0",
        "i": f"UNIQ_KEY\x01AC11000254A0251A69D73C0C{number:08X}\x02WAIT\x01true\x02",
        "j": "0",
        "k": "false",
        "m": "false",
        "n": "bench",
    }
    return frame(SEND_MESSAGE_V2, fields, 1000 + number, BODY)


def frame(code: int, fields: dict[str, str], opaque: int, body: bytes) -> bytes:
    """Write a frame as the Java client does."""
    header = {
        "code": code,
        "extFields": fields,
        "flag": 0,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": 479,
    }
    encoded = json.dumps(header, separators=(",", ":")).encode()
    return remoting.LENGTHS.pack(4 + len(encoded) + len(body), len(encoded)) + encoded + body


def cut(frames: list[bytes], count: int) -> Iterator[list[bytes]]:
    """Cut frames into reads of ``count``."""
    return (frames[at : at + count] for at in range(0, len(frames), count))


if __name__ == "__main__":
    main()
