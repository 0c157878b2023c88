"""Plays recorded reads to the broker of one checkout, in one process without sockets, and keeps what it did.

    python player.py READS FOUND [--plain]

It is run by the Python of each checkout, and so imports nothing of ``tests``. The clock stands still: what
the broker stores and answers depends on the reads only.
"""

import asyncio
import hashlib
import pickle
import sys
import tempfile
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from cometmq import kernels
from cometmq.access.directory import Directory
from cometmq.access.policies import Acl, PolicyEntry
from cometmq.access.users import User
from cometmq.broker.assembly import Assembly
from cometmq.broker.auth.guarding import serve
from cometmq.broker.settings import BrokerSettings, Settings
from cometmq.io.files import Disk
from cometmq.net.server import Server, Session
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import TopicConfig

ADDRESS: Final = "127.0.0.1", 10911
NOW_MS: Final = 1_700_000_000_000
SETTLING_TICKS: Final = 4
SAVING_SECONDS: Final = 1
"""In which threads have saved what was created, and read what was not in memory."""


class Still:
    """A clock that stands still."""

    def now_ms(self) -> int:
        """Return the time of all messages."""
        return NOW_MS

    def monotonic_ms(self) -> int:
        """Return the time of all waits."""
        return 1_000_000


class Wire:
    """The far end of a connection: keeps what is sent."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.data = bytearray()
        self.is_closed = False

    def get_extra_info(self, _: str) -> tuple[str, int]:
        """Return the peer's address."""
        return "127.0.0.1", self.port

    def set_write_buffer_limits(self, *, high: int, low: int) -> None:
        """It holds nothing."""

    def get_write_buffer_size(self) -> int:
        """Return 0: it holds nothing."""
        return 0

    def pause_reading(self) -> None:
        """Nothing is sent but what is played."""

    def resume_reading(self) -> None:
        """Nothing is sent but what is played."""

    def is_closing(self) -> bool:
        """Return whether the broker has closed it."""
        return self.is_closed

    def close(self) -> None:
        """Remember that the broker has closed it."""
        self.is_closed = True

    abort = close

    def write(self, data: bytes) -> None:
        """Keep data."""
        self.data += data

    def writelines(self, data: Sequence[bytes]) -> None:
        """Keep data."""
        self.data += b"".join(data)


class Player:
    """The connections of one server, each opened again when the broker has closed it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._open: dict[int, tuple[Session, Wire]] = {}
        self._count = 0
        self.streams: dict[int, list[bytes]] = defaultdict(list)
        self.closed = 0

    def play(self, reads: Sequence[tuple[int, bytes, int]]) -> None:
        """Play what all connections receive in one turn: data, and where its first whole frame begins."""
        for slot, data, first in reads:
            begin = 0
            if slot not in self._open:
                self._connect(slot)
                begin = first
            session, _ = self._open[slot]
            if begin < len(data) and not session.closed:
                session.data_received(data[begin:])
        for _ in range(1000):
            self._server.turn.handle()
            if not any(session.has_received for session, _ in self._open.values() if not session.closed):
                break

    def collect(self) -> None:
        """Collect what was sent; drop the connections that were closed."""
        for slot, (session, wire) in list(self._open.items()):
            if wire.data:
                self.streams[slot].append(bytes(wire.data))
                wire.data.clear()
            if session.closed:
                self.closed += 1
                del self._open[slot]
                session.connection_lost(None)

    def _connect(self, slot: int) -> None:
        self._count += 1
        wire = Wire(20_000 + self._count % 40_000)
        session = Session(self._server.shared)
        session.connection_made(wire)  # type: ignore[arg-type]  # it is one as far as a session cares
        self._open[slot] = session, wire


async def run(script: dict[str, Any]) -> dict[str, Any]:
    """Open a broker, play all, and return what it answered, stored and counted."""
    loop, clock, disk, stored = asyncio.get_running_loop(), Still(), Disk(), StoreSettings()
    is_signed = bool(script["users"])
    own = BrokerSettings.of(
        broker_name="alike",
        auto_create_topic_enable=False,
        authentication_enabled=is_signed,
        authorization_enabled=is_signed,
        failed_signatures_max=1_000_000,
    )
    directory = Directory()
    with tempfile.TemporaryDirectory(prefix="cometmq-alike-") as folder:
        root = Path(folder)
        with MessageStore.open(root, stored, clock=clock, run_soon=loop.call_soon_threadsafe) as store:
            parts = Assembly(Settings(own, stored), store, disk, clock, ADDRESS, directory=directory)
            for name, secret, entries in script["users"]:
                directory.create(User(name, secret))
                allowed = [PolicyEntry.parse(name, kinds, None, "Allow") for name, kinds in entries]
                directory.put_acl(Acl(name, tuple(allowed)))
            server = Server(parts.requests, clock=clock)
            for name, count in script["topics"]:
                parts.topics.put(TopicConfig(name, count, count))
            server.bulk = None
            player = Player(server)
            player.play(script["begin"])
            await asyncio.sleep(SAVING_SECONDS)
            serve(server, parts.requests, parts.bulk, parts.guard)
            for turn in script["turns"]:
                player.play(turn)
                ticks = 0
                while ticks < SETTLING_TICKS or parts.reads.waiting_count:
                    await asyncio.sleep(0)
                    ticks += 1
                player.collect()
            await asyncio.sleep(SAVING_SECONDS)
            player.collect()
            log = b"".join(path.read_bytes() for path in sorted((root / "commitlog").iterdir()))
            rates = parts.rates
            return {
                "streams": dict(player.streams),
                "closed": player.closed,
                "written": store.written_offset,
                "log": hashlib.sha256(log[: store.written_offset]).hexdigest(),
                "queues": {
                    (topic, queue): store.max_queue_offset(topic, queue)
                    for topic, count in script["topics"]
                    for queue in range(count)
                },
                "held": parts.pulls.held_count,
                "refused_requests": server.shared.refused_requests,
                "counts": {
                    name: dict(value) if isinstance(value, dict) else getattr(value, "total", value)
                    for name, value in vars(rates).items()
                    if not name.startswith("_") and name != "put_times"
                },
            }


def main() -> None:
    """Play what one file holds, and write what came of it to another."""
    reads, found, *options = sys.argv[1:]
    if "--plain" not in options:
        kernels.load()
    script = pickle.loads(Path(reads).read_bytes())
    Path(found).write_bytes(pickle.dumps(asyncio.run(run(script))))


if __name__ == "__main__":
    main()
