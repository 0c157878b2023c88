"""The frames of RocketMQ's classic replication: two byte streams over one connection, without a handshake.

A slave sends reports, each of 8 bytes:

====== ==== =============== ==================================================================================
Offset Size Field           What it is for
====== ==== =============== ==================================================================================
0      8    end offset      of the slave's log: where the master sends on at first, then an acknowledgement
====== ==== =============== ==================================================================================

The master sends nothing before the first report, then frames:

====== ==== =============== ==================================================================================
Offset Size Field           What it is for
====== ==== =============== ==================================================================================
0      8    offset          CommitLog offset of the data's first byte; of a heartbeat, where it will send on
8      4    size            bytes of data; 0 for a heartbeat
12     size data            bytes of the log, cut anywhere, but never across two files
====== ==== =============== ==================================================================================

Big-endian, signed. Source: RocketMQ ``store/ha/DefaultHAConnection.java``, ``store/ha/DefaultHAClient.java``.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from cometmq.errors import ProtocolError
from cometmq.message import Buffer

_REPORT: Final = struct.Struct(">q")
_HEAD: Final = struct.Struct(">qi")
REPORT_SIZE: Final = _REPORT.size
HEAD_SIZE: Final = _HEAD.size
assert (REPORT_SIZE, HEAD_SIZE) == (8, 12)


class LogFrame(NamedTuple):
    """A frame of a master; without data it is a heartbeat."""

    offset: int
    data: bytes = b""

    def __str__(self) -> str:
        return f"{len(self.data)} bytes at {self.offset}" if self.data else f"heartbeat at {self.offset}"


def encode_report(end_offset: int) -> bytes:
    """Encode the report of a slave's log end."""
    return _REPORT.pack(end_offset)


def encode_heartbeat(offset: int) -> bytes:
    """Encode a heartbeat of a master that will send on from an offset."""
    return _HEAD.pack(offset, 0)


def encode_frames(offset: int, data: Buffer, batch_size: int) -> Iterator[Buffer]:
    """Return the parts of the frames, of ``batch_size`` bytes at most, that carry the log's bytes."""
    view = memoryview(data)
    for at in range(0, len(view), batch_size):
        part = view[at : at + batch_size]
        yield _HEAD.pack(offset + at, len(part))
        yield part


class ReportReader:
    """Reads the reports of a slave from the bytes that arrive."""

    def __init__(self) -> None:
        self._rest = b""

    def receive(self, data: bytes) -> int | None:
        """Return the end offset of the last complete report; None if none is complete."""
        data = self._rest + data
        end = len(data) - len(data) % REPORT_SIZE
        self._rest = data[end:]
        return _REPORT.unpack_from(data, end - REPORT_SIZE)[0] if end else None


class LogFrameReader:
    """Reads the frames of a master from the bytes that arrive.

    Data is returned as it comes, so a large frame is not collected: it comes as several frames.

    Args:
        size_max: most bytes of data that a frame may announce.
    """

    def __init__(self, size_max: int) -> None:
        self._size_max = size_max
        self._head = b""
        self._offset = 0  # of the next byte of the frame that is arriving …
        self._left = 0  # … and how many are missing

    def receive(self, data: bytes) -> list[LogFrame]:
        """Return the frames in the bytes. Raises ProtocolError for a size that cannot be."""
        frames: list[LogFrame] = []
        at = 0
        while at < len(data):
            if self._left:
                part = data[at : at + self._left]
                frames.append(LogFrame(self._offset, part))
                self._offset += len(part)
                self._left -= len(part)
                at += len(part)
                continue
            part = data[at : at + HEAD_SIZE - len(self._head)]
            self._head += part
            at += len(part)
            if len(self._head) == HEAD_SIZE:
                self._offset, self._left = _HEAD.unpack(self._head)
                self._head = b""
                if not 0 <= self._left <= self._size_max:
                    raise ProtocolError(
                        f"a frame of {self._left} bytes at offset {self._offset}: 0 to {self._size_max} are "
                        "possible; is this the HA port of a master without a controller?"
                    )
                if not self._left:
                    frames.append(LogFrame(self._offset))
        return frames
