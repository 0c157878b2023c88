"""Batches made beforehand, over a raw connection: a sender that costs next to nothing for a message.

Each batch goes to the next topic, and to the next queue when all topics have had one. Nothing differs from
round to round but the messages' unique keys, which are written into the frames where they stand.
"""

import socket
import threading
import time
from types import TracebackType
from typing import Any, Final, NamedTuple, Self

import numpy as np
from benches import kit
from benches.bench_bulk_sends import frame
from tests.interop import remoting
from tests.interop.peers import Peer

from cometmq.wire import batch
from cometmq.wire.codes import RequestCode

BATCH: Final = 32
KEY_DIGITS: Final = 8
DIGITS: Final = np.frombuffer(b"0123456789ABCDEF", np.uint8)
SHIFTS: Final = 4 * np.arange(KEY_DIGITS)[::-1]
UNIQUE_KEY: Final = b"AC11000254A0251A69D73C0C"
"""How unique keys begin; their last digits count the messages."""
MARK: Final = UNIQUE_KEY + b"0" * KEY_DIGITS
PROPERTIES: Final = b"UNIQ_KEY\x01" + MARK + b"\x02WAIT\x01true\x02"
SUCCESS: Final = b'{"code":0,'
ANSWERS_SIZE_MAX: Final = 1 << 18
WAIT_S_MAX: Final = 60


class Sent(NamedTuple):
    """What a window gave."""

    messages: int
    seconds: float
    broker_cpu_s: float


class Batches:
    """The frames of a batch for each queue.

    Attributes:
        count: how many messages a round of them has.
    """

    def __init__(self, topics: int, queues: int, body_size: int) -> None:
        body = bytes(ord("a") + at % 26 for at in range(body_size))
        frames = [
            frame_of(f"bench-{topic}", queue, body) for queue in range(queues) for topic in range(topics)
        ]
        self.count = BATCH * len(frames)
        data = b"".join(frames)
        self._data = np.frombuffer(data, np.uint8).copy()
        self._keys = _places_of(data, MARK)[:, None] + np.arange(len(UNIQUE_KEY), len(MARK))
        self._made = 0

    def round(self) -> bytes:
        """Return all frames, with keys that have not been there."""
        numbers = np.arange(self._made, self._made + len(self._keys))
        self._data[self._keys] = DIGITS[numbers[:, None] >> SHIFTS & 15]
        self._made += len(numbers)
        return bytes(self._data)


class RawBatches:
    """Sends batches to a broker as fast as it takes them."""

    def __init__(self, peer: Peer, batches: Batches) -> None:
        host, _, port = peer.broker.partition(":")
        self._address = host, int(port)
        self._pid = peer.pid
        self._batches = batches

    def window(self, seconds: float) -> Sent:
        """Send for so long; the time ends when all is answered. Raises AssertionError if one is refused."""
        with socket.create_connection(self._address) as connection, Answers(connection) as answers:
            messages, cpu_s, begin = 0, kit.cpu_s(self._pid), time.perf_counter()
            while time.perf_counter() < begin + seconds:
                connection.sendall(self._batches.round())
                messages += self._batches.count
            answers.wait(messages // BATCH)
            return Sent(messages, time.perf_counter() - begin, kit.cpu_s(self._pid) - cpu_s)


class Answers:
    """Counts, in a thread, what a broker answers."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._changed = threading.Condition()
        self._count = 0
        self._refusals: list[bytes] = []
        self._reader = threading.Thread(target=self._read)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.shutdown(socket.SHUT_RDWR)
        self._reader.join()

    def wait(self, count: int) -> None:
        """Wait until there are so many."""
        with self._changed:
            self._changed.wait_for(lambda: self._count >= count or self._refusals, WAIT_S_MAX)
        assert self._count == count and not self._refusals, (self._count, count, self._refusals[:1])

    def _read(self) -> None:
        unfinished = b""
        while data := self._connection.recv(ANSWERS_SIZE_MAX):
            unfinished += data
            position, count = 0, 0
            while len(unfinished) - position >= remoting.LENGTHS.size:
                length, _ = remoting.LENGTHS.unpack_from(unfinished, position)
                end = position + 4 + length
                if end > len(unfinished):
                    break
                if not unfinished.startswith(SUCCESS, position + remoting.LENGTHS.size):
                    self._refusals.append(unfinished[position:end])
                position, count = end, count + 1
            unfinished = unfinished[position:]
            with self._changed:
                self._count += count
                self._changed.notify()


def frame_of(topic: str, queue_id: int, body: bytes) -> bytes:
    """Build a batch."""
    fields = {
        "a": "bench-producer",
        "b": topic,
        "c": "TBW102",
        "d": "8",
        "e": str(queue_id),
        "f": "0",
        "g": str(time.time_ns() // 1_000_000),
        "h": "0",
        "i": PROPERTIES.decode(),
        "j": "0",
        "k": "false",
        "m": "true",
        "n": "bench",
    }
    messages = batch.encode([batch.BatchMessage(body, PROPERTIES)] * BATCH)
    return frame(RequestCode.SEND_BATCH_MESSAGE, fields, 1, messages)


def _places_of(data: bytes, mark: bytes) -> Any:
    """Return where a mark begins in data, each time."""
    places, place = [], data.find(mark)
    while place >= 0:
        places.append(place)
        place = data.find(mark, place + len(mark))
    return np.array(places)
