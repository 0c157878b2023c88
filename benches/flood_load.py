"""The flood of ``bench_flood``: connections that send as fast as they can, whatever is answered.

    python -m benches.flood_load ORDER

A process of its own, since it is to keep a core busy. ORDER is JSON: port, topics, queues, seconds, the
number of the first connection, how many there are, the size of the bodies, and the file for what was
acknowledged: an array of shape (n, 2) of the connection's number and the message's. The process prints a line
of JSON: how many messages were sent, how often each code was answered, and how many sends nobody answered.

No message is like another: its body begins with the numbers of its connection and itself, and so does its
unique key. The frames are made many at a time, and answers are searched, not decoded.
"""

import asyncio
import json
import re
import struct
import sys
from array import array
from collections import Counter
from functools import partial
from typing import Any, Final, Self, cast

import numpy as np
import uvloop
from numpy.typing import NDArray

FRAMES: Final = 128
"""So many frames are made and written at once."""
DIGITS: Final = 9
LAST_ANSWERS_S: Final = 30
_HEADER: Final = (
    b'{"code":310,"extFields":{"a":"flood","b":"%s","c":"TBW102","d":"8","e":"%d","f":"0","g":"1795255006748",'
    b'"h":"0","i":"UNIQ_KEY\\u0001AC11000254A0%06d%s\\u0002WAIT\\u0001true\\u0002","j":"0","k":"false","m":"false"},'
    b'"flag":0,"language":"JAVA","opaque":1%s,"serializeTypeCurrentRPC":"JSON","version":479}'
)
_ANSWER: Final = re.compile(rb'"code":(\d+),.*?"opaque":1(\d{9})')
_NUMBER: Final = b"#" * DIGITS
_LENGTHS: Final = struct.Struct(">ii")


class Frames:
    """The frames of one connection, each with its number in three places."""

    def __init__(self, order: dict[str, Any], connection: int) -> None:
        topic = order["topics"][connection % len(order["topics"])].encode()
        header = _HEADER % (topic, connection % order["queues"], connection, _NUMBER, _NUMBER)
        body = b"%06d%s" % (connection, _NUMBER)
        body += bytes(97 + place % 26 for place in range(order["bodySize"] - len(body)))
        frame = _LENGTHS.pack(4 + len(header) + len(body), len(header)) + header + body
        self._frames = np.tile(np.frombuffer(frame, np.uint8), (FRAMES, 1))
        self._places = [found.start() for found in re.finditer(_NUMBER, frame)]
        self._next = 0

    @property
    def count(self) -> int:
        """How many have been made."""
        return self._next

    def make(self) -> bytes:
        """Build the next ones."""
        numbers = np.arange(self._next, self._next + FRAMES)
        self._next += FRAMES
        digits = digits_of(numbers)
        for place in self._places:
            self._frames[:, place : place + DIGITS] = digits
        return self._frames.tobytes()


def digits_of(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Write numbers in decimal digits, a row each."""
    powers = 10 ** np.arange(DIGITS - 1, -1, -1)
    return (numbers[:, None] // powers % 10 + ord("0")).astype(np.uint8)


class Flood(asyncio.Protocol):
    """One connection: writes whenever the system takes bytes."""

    def __init__(self, order: dict[str, Any], number: int) -> None:
        self.number = number
        self.frames = Frames(order, number)
        self.acknowledged = array("q")
        self.codes: Counter[bytes] = Counter()
        self.answered = 0
        self.ended = asyncio.Event()
        self._rest = b""
        self._stops = self._is_paused = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to send."""
        self.transport = cast(asyncio.Transport, transport)
        self._loop = asyncio.get_running_loop()
        self._loop.call_soon(self._send)

    def pause_writing(self) -> None:
        """Wait: the broker takes no more."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Resume sending."""
        self._is_paused = False
        self._loop.call_soon(self._send)

    def itself(self) -> Self:
        """Stand in for a protocol factory."""
        return self

    def stop(self) -> None:
        """Send no more."""
        self._stops = True
        self._check_ended()

    def data_received(self, data: bytes) -> None:
        """Record answers."""
        data, end = self._rest + data, 0
        for found in _ANSWER.finditer(data):
            code, number = found.groups()
            end = found.end()
            self.answered += 1
            if code == b"0":
                self.acknowledged.append(int(number))
            else:
                self.codes[code] += 1
        self._rest = data[end:]
        self._check_ended()

    def connection_lost(self, _: Exception | None) -> None:
        """Record that nothing more is answered."""
        self.ended.set()

    def _send(self) -> None:
        if not (self._stops or self._is_paused or self.transport.is_closing()):
            self.transport.write(self.frames.make())
            if not self._is_paused:
                self._loop.call_soon(self._send)

    def _check_ended(self) -> None:
        if self._stops and self.answered >= self.frames.count:
            self.ended.set()


async def flood(order: dict[str, Any]) -> dict[str, Any]:
    """Send for some seconds; wait for the last answers; write what was acknowledged."""
    loop = asyncio.get_running_loop()
    floods: list[Flood] = []
    for number in range(order["first"], order["first"] + order["connections"]):
        made = Flood(order, number)
        floods.append(made)
        await loop.create_connection(partial(Flood.itself, made), "127.0.0.1", order["port"])
    await asyncio.sleep(order["seconds"])
    for one in floods:
        one.stop()
    ends = [asyncio.ensure_future(one.ended.wait()) for one in floods]
    await asyncio.wait(ends, timeout=LAST_ANSWERS_S)
    for end in ends:
        end.cancel()
    codes: Counter[str] = Counter()
    rows = []
    for one in floods:
        codes["0"] += len(one.acknowledged)
        codes.update({code.decode(): count for code, count in one.codes.items()})
        numbers = np.array(one.acknowledged, np.int64)
        rows.append(np.column_stack([np.full_like(numbers, one.number), numbers]))
        one.transport.abort()
    np.save(order["file"], np.concatenate(rows))
    sent = sum(one.frames.count for one in floods)
    return {"sent": sent, "codes": codes, "unanswered": sent - sum(one.answered for one in floods)}


if __name__ == "__main__":
    print(json.dumps(uvloop.run(flood(json.loads(sys.argv[1])))))
