"""A broker's parts without a socket, fed the bytes of reads: what the tests of rows share."""

import asyncio
import json
import struct
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from tests.broker.conftest import SMALL

from cometmq import kernels
from cometmq.broker.assembly import Assembly
from cometmq.broker.settings import BrokerSettings, Settings
from cometmq.broker.state.saved_entries import SavedEntries
from cometmq.format import layout
from cometmq.format.host import pack_host
from cometmq.io.clock import ManualClock
from cometmq.io.files import Disk, FileLayer
from cometmq.kernels import plain
from cometmq.net.server import Server, Session
from cometmq.net.turn import Read
from cometmq.store.settings import StoreSettings
from cometmq.store.store import MessageStore
from cometmq.testing.memory_disk import MemoryDisk
from cometmq.wire.codes import RequestCode
from cometmq.wire.connection import FrameReader
from cometmq.wire.frame import Command, SerializeType, encode

V2 = RequestCode.SEND_MESSAGE_V2
ROOT = Path("/disk/store")
TOPICS = ["TopicA", "TopicB", "t" * 127]
USUAL = {
    "a": "group",
    "b": "TopicA",
    "c": "TBW102",
    "d": "4",
    "e": "0",
    "f": "0",
    "g": "1795255006748",
    "h": "0",
    "i": "KEYS\x01k1 k2\x02UNIQ_KEY\x01C000020224773824AFC66920\x02WAIT\x01true\x02TAGS\x01TagA\x02",
    "j": "0",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}


class Wire:
    """The far end of a session: takes what is sent."""

    def __init__(self, host: str) -> None:
        self.data = b""
        self.is_closed = False
        self.packed = pack_host(host, 50123)
        self._peer = (host, 50123)

    def get_extra_info(self, _: str) -> tuple[str, int]:
        return self._peer

    def set_write_buffer_limits(self, *, high: int, low: int) -> None:
        assert high > low

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def write(self, data: bytes) -> None:
        self.data += data

    def writelines(self, data: Sequence[bytes]) -> None:
        self.data += b"".join(data)

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Result(NamedTuple):
    """What came of some reads."""

    answers: list[bytes]
    log: bytes
    queues: dict[tuple[str, int], bytes]
    next_offsets: dict[tuple[str, int], int]
    keys: list[bytes]
    counts: tuple[int, ...]
    offsets: dict[str, Any]
    pulled: dict[str, dict[int, int]]
    held: int
    is_closed: bool


class Desk:
    """A broker's parts without a socket."""

    def __init__(self, store: MessageStore, server: Server, parts: Assembly, host: str) -> None:
        self.store, self.server, self.parts, self.wire = store, server, parts, Wire(host)
        self.bulk = Counting(parts.bulk)
        self.guard: Any = None
        self.session = Session(server.shared)
        self.session.connection_made(self.wire)  # type: ignore[arg-type]  # it is one as far as a session cares

    def read(self, data: bytes) -> None:
        if data and not self.wire.is_closed:
            self.session.data_received(data)
            while self.session.has_received:
                self.server.turn.handle()

    async def on_disk(self) -> None:
        """Wait until all who wait for the disk are answered."""
        await asyncio.wrap_future(self.store.wait_flushed())
        for _ in range(4):  # held pulls are answered at the end of a turn, and their answers leave behind it
            await asyncio.sleep(0)
        assert self.parts.reads.waiting_count == 0

    def result(self, root: Path, files: FileLayer) -> Result:
        answers, rates = FrameReader().receive_data(self.wire.data), self.parts.rates
        directory = layout.commitlog_dir(root)
        log = b"".join(files.load(directory / name) for name in files.names(directory))
        return Result(
            sorted(map(encode, answers)),
            log.rstrip(b"\0"),  # the next file may have been made already
            {(queue.topic, queue.queue_id): queue.read(0, 10_000) for queue in self.store._queues},
            {(queue.topic, queue.queue_id): queue.next_offset for queue in self.store._queues},
            self.store.query("TopicA", "k1", 1000).records,
            (rates.stored.total, rates.found.total, rates.missed.total, rates.delivered.total),
            self.parts.offsets.copies(self.parts.offsets.keys()),
            self.parts.offsets._pulled,
            self.parts.pulls.held_count,
            self.wire.is_closed,
        )


class Counting:
    """Counts the bytes that are taken as rows, those of refused ones too."""

    def __init__(self, door: Any) -> None:
        self.taken = 0
        self._door = door

    def guarded_by(self, guard: Any) -> "Counting":
        self._door = self._door.guarded_by(guard)
        return self

    def take(self, reads: Sequence[Read]) -> None:
        for read in reads:
            self._see_commands(read.session)
        self.taken += sum(len(read.data) - read.position for read in reads)
        self._door.take(reads)

    def _see_commands(self, session: Any) -> None:
        """Subtract what becomes a command."""
        handle = type(session).handle

        def seen(read: Read, data: bytes, *more: Any, **failed: Any) -> bool:
            self.taken -= len(data)
            return bool(handle(session, read, data, *more, **failed))

        session.handle = seen


@contextmanager
def desk(
    root: Path,
    *,
    bulk: bool,
    host: str = "127.0.0.1",
    files: FileLayer | None = None,
    topics: Sequence[str] = TOPICS,
    **changes: Any,
) -> Iterator[Desk]:
    """Open a broker's parts whose topics have had a message in each queue."""
    files, clock = files or Disk(), ManualClock()
    small = SMALL | {"max_message_size": 3000, "mapped_file_size_commit_log": 1 << 14} | changes
    store_settings = StoreSettings(**small)
    loop = asyncio.get_running_loop()
    with MessageStore.open(
        root, store_settings, files=files, clock=clock, run_soon=loop.call_soon_threadsafe
    ) as store:
        own = BrokerSettings.of(broker_name="broker-a")
        parts = Assembly(Settings(own, store_settings), store, files, clock, ("10.1.2.3", 10911))
        delete_at_once(parts, store)
        save_at_once(parts.topics._saved)
        save_at_once(parts.groups._saved)
        server = Server(parts.requests, clock=clock)
        made = Desk(store, server, parts, host)
        if bulk:
            server.bulk = made.bulk
        for topic in [*topics, *topics]:  # so that each queue has two messages
            for queue_id in range(4):
                made.read(json_frame(USUAL | {"b": topic, "e": str(queue_id)}))
        try:
            yield made
        finally:
            server.remove(made.session)


@contextmanager
def served_by(*, compiled: bool) -> Iterator[None]:
    """Serve by the compiled operations, or by the plain ones even if the compiled ones are loaded."""
    with patch.object(kernels.loading, "ops", kernels.load() if compiled else plain):
        yield


def delete_at_once(parts: Assembly, store: MessageStore) -> None:
    """Delete what there is in deleted topics without a thread."""

    async def delete(topics: Collection[str]) -> None:
        for topic in topics:
            store.delete_topic(topic)
        parts.offsets.delete_topics(topics)

    parts.topics.on_delete(delete)


def save_at_once(entries: SavedEntries[Any]) -> None:
    """Save a table within each change: a read of a desk is answered before it returns."""

    def save() -> None:
        change, write = entries._begin_write()
        with suppress(StopIteration):
            entries._delete_data(change).send(None)
            raise AssertionError("a deletion of a desk waits for nothing")
        entries._end_write(change, write())

    entries._write_soon = save  # type: ignore[method-assign]  # a desk has no turns of a loop


def json_frame(
    fields: dict[str, Any], opaque: int = 1, body: bytes = b"body", *, code: int = V2, flag: int = 0
) -> bytes:
    """Write a frame as the Java client does."""
    header = {
        "code": code,
        "extFields": fields,
        "flag": flag,
        "language": "JAVA",
        "opaque": opaque,
        "serializeTypeCurrentRPC": "JSON",
        "version": 479,
    }
    return framed(json.dumps(header, separators=(",", ":")).encode(), body)


def framed(header: bytes, body: bytes = b"body") -> bytes:
    return struct.pack(">iI", 4 + len(header) + len(body), len(header)) + header + body


def binary_frame(
    fields: dict[str, str], opaque: int = 1, body: bytes = b"body", *, code: int = V2, flag: int = 0
) -> bytes:
    return encode(
        Command(code, opaque, flag, ext_fields=fields, body=body, serialize_type=SerializeType.ROCKETMQ)
    )


async def both(
    reads: Sequence[bytes], *, topics: Sequence[str] = TOPICS, **changes: Any
) -> tuple[Result, Result, int]:
    """Return what comes of reads as commands, and as rows, and how many bytes became rows."""
    kernels.load()
    results, taken = [], 0
    for bulk in (False, True):
        files = MemoryDisk()
        with desk(ROOT, bulk=bulk, files=files, topics=topics, **changes) as made:
            await made.on_disk()
            made.bulk.taken = 0
            for data in reads:
                made.read(data)
                await made.on_disk()
            results.append(made.result(ROOT, files))
            taken = made.bulk.taken
    return results[0], results[1], taken
