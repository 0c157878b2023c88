"""Calls that are nearly right: what clients send, with something of it changed; by hand also very many.

    python -m tests.proxy.fuzzed_calls HOST:PORT [--calls 100000] [--connections 16] [--seed 1]

They go to a server that runs: look there at what it logs, its memory, and how long others wait.
"""

import argparse
import asyncio
import random
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from typing import Any, cast

import hpack
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from cometmq.proxy.transport import METHODS, SERVICE

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
TEXTS = (
    "Fuzzed",
    "FuzzedGroup",
    "",
    "x" * 300,
    "a\nb",
    "\x1b[31m",
    "gr\u00fc\u00df",
    "%RETRY%G",
    "*",
    "a = 1",
    "0",
    "\0",
)
NUMBERS = (0, 1, 2, 32, 127, 1_000, 2**31 - 1)
TIMEOUTS = ("50m", "1S", "0n", "-1S", "S", "99999999H", "1" * 30 + "S", "\u0661S")
CALLS_PER_CONNECTION = 20
PATIENCE_S = 0.2
"""How long a connection reads answers before it is cut."""


class Fuzzer:
    """Builds calls; the same ones for the same seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def settings(self) -> bytes:
        """Return the beginning of a connection."""
        window = self._random.choice((65_535, 65_535, 1 << 20, 100, 0))
        return PREFACE + SettingsFrame(0, settings={4: window}).serialize()

    def frames(self, stream: int) -> bytes:
        """Return the frames of a call."""
        name = self._random.choice(list(METHODS))
        request = GetMessageClass(METHODS[name].input_type)()
        self._fill(request)
        made = b"".join(
            (*self._headers(stream, name), *self._data(stream, self._framed(request)), *self._more(stream))
        )
        if self._happens(0.01):
            changed = bytearray(made)
            changed[self._random.randrange(len(changed))] ^= 1 << self._random.randrange(8)
            made = bytes(changed)
        return made

    def _happens(self, chance: float) -> bool:
        return self._random.random() < chance

    def _headers(self, stream: int, name: str) -> Iterator[bytes]:
        named = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", f"/{SERVICE}/{name}"),
            (":authority", "x"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
            ("x-mq-client-id", f"fuzzed-{self._random.randrange(50)}"),
            ("x-mq-language", self._random.choice(("JAVA", "PYTHON", "HTTP", ""))),
        ]
        if self._happens(0.5):
            named.append(
                ("grpc-timeout", self._random.choice(TIMEOUTS if self._happens(0.3) else TIMEOUTS[:2]))
            )
        if self._happens(0.2):
            named.append(
                (
                    self._random.choice(("x-bin", "grpc-x-bin", "X-Upper", "x-mq-client-id", "te")),
                    self._text(),
                )
            )
        if self._happens(0.1):
            del named[self._random.randrange(len(named))]
        if self._happens(0.1):
            place = self._random.randrange(len(named))
            named[place] = (named[place][0], self._text())
        data = hpack.Encoder().encode(named, huffman=self._happens(0.5))
        cut = self._random.randrange(len(data)) if self._happens(0.1) else len(data)
        flags = [
            *(["END_HEADERS"] if cut == len(data) else []),
            *(["END_STREAM"] if self._happens(0.03) else []),
        ]
        yield HeadersFrame(stream, data[:cut], flags=flags).serialize()
        if cut < len(data):
            yield ContinuationFrame(stream, data[cut:], flags=["END_HEADERS"]).serialize()

    def _framed(self, request: Message) -> bytes:
        """Return a request with its head, one of which may be wrong."""
        data = bytearray(request.SerializeToString())
        while data and self._happens(0.1):
            data[self._random.randrange(len(data))] = self._random.randrange(256)
        size = len(data)
        if self._happens(0.05):
            size = self._random.choice((0, size + 1, max(0, size - 1), 1 << 24, (1 << 32) - 1))
        made = struct.pack(">BI", self._random.choice((0,) * 30 + (1, 2)), size) + bytes(data)
        return made[: self._random.randrange(len(made))] if self._happens(0.05) else made

    def _data(self, stream: int, data: bytes) -> Iterator[bytes]:
        pieces = [data]
        if self._happens(0.3):
            cut = self._random.randrange(len(data) + 1)
            pieces = [data[:cut], b"", data[cut:]]
        ends = self._happens(0.9)
        for place, piece in enumerate(pieces):
            flags = ["END_STREAM"] if ends and place == len(pieces) - 1 else []
            if self._happens(0.05):
                yield DataFrame(
                    stream, piece, pad_length=self._random.randrange(256), flags=["PADDED", *flags]
                ).serialize()
            else:
                yield DataFrame(stream, piece, flags=flags).serialize()

    def _more(self, stream: int) -> Iterator[bytes]:
        """Return what comes after a request, mostly nothing."""
        rarely: tuple[tuple[float, Callable[[], bytes]], ...] = (
            (0.05, lambda: RstStreamFrame(stream, error_code=8).serialize()),
            (
                0.02,
                lambda: WindowUpdateFrame(
                    stream, self._random.choice((1, 1 << 16, (1 << 31) - 1))
                ).serialize(),
            ),
            (0.02, lambda: DataFrame(stream, b"late").serialize()),
            (0.02, lambda: PingFrame(0, b"12345678").serialize()),
            (
                0.02,
                lambda: PriorityFrame(stream, depends_on=self._random.choice((0, 0, 0, stream))).serialize(),
            ),
            (
                0.02,
                lambda: HeadersFrame(
                    stream, hpack.Encoder().encode([("x", "y")]), flags=["END_HEADERS", "END_STREAM"]
                ).serialize(),
            ),
            (0.02, lambda: b"\0\0\2\xee\0" + struct.pack(">I", stream) + b"ab"),
        )
        for chance, make in rarely:
            if self._happens(chance):
                yield make()

    def _fill(self, message: Message, depth: int = 0) -> None:
        """Set some fields of a message."""
        for field in message.DESCRIPTOR.fields:
            if self._happens(0.4):
                continue
            value = getattr(message, field.name)
            if (
                field.type == FieldDescriptor.TYPE_MESSAGE
                and cast(Any, field).message_type.GetOptions().map_entry
            ):
                value[self._text()] = self._text()
            elif field.is_repeated:
                for _ in range(self._random.randrange(3)):
                    if field.type != FieldDescriptor.TYPE_MESSAGE:
                        value.append(self._value(field))
                    elif depth < 4:
                        self._fill(value.add(), depth + 1)
            elif field.type != FieldDescriptor.TYPE_MESSAGE:
                setattr(message, field.name, self._value(field))
            elif depth < 4:
                value.SetInParent()
                self._fill(value, depth + 1)

    def _value(self, field: Any) -> Any:
        if field.type == FieldDescriptor.TYPE_STRING:
            return self._text()
        if field.type == FieldDescriptor.TYPE_BYTES:
            return self._random.randbytes(self._random.choice((0, 1, 10, 1_000)))
        if field.type == FieldDescriptor.TYPE_BOOL:
            return self._happens(0.5)
        if field.type == FieldDescriptor.TYPE_ENUM:
            return self._random.choice([*field.enum_type.values_by_number, 99])
        return self._random.choice(NUMBERS)

    def _text(self) -> str:
        return self._random.choice(TEXTS)


async def send_calls(host: str, port: int, seed: int, most: int) -> int:
    """Send so many calls on a connection, and read for a while; return how many the server has taken."""
    fuzzer, sent = Fuzzer(seed), 0
    reader, writer = await asyncio.open_connection(host, port)
    reading = asyncio.create_task(_read(reader))
    with suppress(ConnectionError):
        writer.write(fuzzer.settings())
        while sent < most and not reading.done():
            writer.write(fuzzer.frames(2 * sent + 1))
            await writer.drain()
            sent += 1
            await asyncio.sleep(0)  # let it read
        await asyncio.wait((reading,), timeout=PATIENCE_S)
    reading.cancel()
    writer.close()
    return sent


async def _read(reader: asyncio.StreamReader) -> None:
    """Read to the end."""
    with suppress(ConnectionError):
        while await reader.read(1 << 16):
            pass


async def campaign(options: argparse.Namespace) -> None:
    """Send very many calls, on some connections at a time."""
    host, _, port = options.address.rpartition(":")
    seeds, began, sent = count(options.seed), time.monotonic(), 0

    async def one_after_the_other() -> None:
        nonlocal sent
        while sent < options.calls:
            taken = await send_calls(host, int(port), next(seeds), CALLS_PER_CONNECTION)
            sent += taken

    await asyncio.gather(*(one_after_the_other() for _ in range(options.connections)))
    print(f"{sent} calls on {next(seeds) - options.seed} connections in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("address")
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    asyncio.run(campaign(parser.parse_args()))
