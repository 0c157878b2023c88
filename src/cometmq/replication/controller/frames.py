"""The frames between a master and its slaves under a controller (RocketMQ's *auto switch* protocol).

The slave connects and sends one handshake; the master answers with its epochs. The slave truncates its log
to the consistent point (:mod:`cometmq.replication.epochs`) and reports where it ends; from there the master
sends data. Each report also acknowledges all before it. Both sides send something every 5 s at least.

Slave to master, handshake, 16 bytes:

====== ==== ==================== ====================================================================
Offset Size Field                What it is for
====== ==== ==================== ====================================================================
0      4    state                1: handshake
4      2    sync from last file  1 if an empty slave wants the master's last file only
6      2    async learner        1 if the slave never counts as in sync
8      8    broker id            the slave's id by the controller
====== ==== ==================== ====================================================================

Slave to master, report, 12 bytes:

====== ==== ==================== ====================================================================
0      4    state                2: transfer
4      8    max offset           end of the slave's log; the first report asks for the data from there
====== ==== ==================== ====================================================================

Master to slave, handshake, 20 + 12·n bytes:

====== ==== ==================== ====================================================================
0      4    state                1: handshake
4      4    body size            12·n
8      8    max offset           end of the master's log
16     4    last epoch           the master's, -1 without one
20     12·n epochs               int epoch, long start offset; ascending
====== ==== ==================== ====================================================================

Master to slave, data, 36 + n bytes:

====== ==== ==================== ====================================================================
0      4    state                2: transfer
4      4    body size            n; 0 for a heartbeat
8      8    offset               CommitLog offset of the first byte, of a heartbeat's next one
16     4    epoch                to which the data belongs; a frame crosses no end of an epoch or file
20     8    epoch start offset   where that epoch begins
28     8    confirm offset       before which all in-sync replicas have the log
36     n    data                 bytes of the CommitLog
====== ==== ==================== ====================================================================

Big-endian, signed. Source: RocketMQ ``store/ha/autoswitch/AutoSwitchHAClient.java``,
``AutoSwitchHAConnection.java``.
"""

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from cometmq.errors import FormatError, ProtocolError
from cometmq.message import Buffer
from cometmq.replication.epochs import EpochEntry, EpochList

HANDSHAKE: Final = 1
TRANSFER: Final = 2
"""The states of a connection that are on the wire (RocketMQ: the ordinals of ``HAConnectionState``)."""

EPOCHS_MAX: Final = 1000
"""Most epochs in a handshake: RocketMQ's masters have room for as many. The latest are sent."""
DATA_SIZE_MAX: Final = 4 * 1024 * 1024 - 36
"""Largest data of one frame: a RocketMQ slave's buffer holds 4 MiB. Masters send 32 KiB by default."""

_STATE: Final = struct.Struct(">i")
_SLAVE_HANDSHAKE: Final = struct.Struct(">ihhq")
_REPORT: Final = struct.Struct(">iq")
_MASTER_HANDSHAKE: Final = struct.Struct(">iiqi")
_EPOCH: Final = struct.Struct(">iq")
_DATA: Final = struct.Struct(">iiqiqq")
assert (_SLAVE_HANDSHAKE.size, _REPORT.size) == (16, 12)
assert (_MASTER_HANDSHAKE.size, _EPOCH.size, _DATA.size) == (20, 12, 36)


class SlaveHandshake(NamedTuple):
    """The first frame of a slave; its fields are in the table above."""

    broker_id: int
    sync_from_last_file: bool = False
    async_learner: bool = False

    def encode(self) -> bytes:
        """Encode the 16 bytes."""
        flags = int(self.sync_from_last_file), int(self.async_learner)
        return _SLAVE_HANDSHAKE.pack(HANDSHAKE, *flags, self.broker_id)


class SlaveReport(NamedTuple):
    """The end of a slave's log: a request for what follows, and an acknowledgement of what is before."""

    max_offset: int

    def encode(self) -> bytes:
        """Encode the 12 bytes."""
        return _REPORT.pack(TRANSFER, self.max_offset)


class MasterHandshake(NamedTuple):
    """The answer to a slave's handshake; its fields are in the table above."""

    max_offset: int
    epochs: EpochList

    def encode(self) -> bytes:
        """Encode the frame, with the latest EPOCHS_MAX epochs."""
        entries = self.epochs.entries[-EPOCHS_MAX:]
        header = _MASTER_HANDSHAKE.pack(
            HANDSHAKE, len(entries) * _EPOCH.size, self.max_offset, self.epochs.last_epoch
        )
        return header + b"".join(_EPOCH.pack(*entry) for entry in entries)


class MasterData(NamedTuple):
    """Bytes of the log, all of one epoch, or a heartbeat; its fields are in the table above."""

    offset: int
    entry: EpochEntry
    confirm_offset: int
    data: Buffer = b""

    def encode(self) -> bytes:
        """Encode the frame."""
        return self.header() + self.data

    def header(self) -> bytes:
        """Encode the 36 bytes before the data."""
        return _DATA.pack(TRANSFER, len(self.data), self.offset, *self.entry, self.confirm_offset)


class SlaveFrames:
    """Decodes the frames of a slave, from pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def receive(self, data: Buffer) -> Iterator[SlaveHandshake | SlaveReport]:
        """Return the frames that are complete. Raises ProtocolError; nothing can be decoded after it."""
        self._buffer += data
        while len(self._buffer) >= _STATE.size:
            (state,) = _STATE.unpack_from(self._buffer)
            layout = {HANDSHAKE: _SLAVE_HANDSHAKE, TRANSFER: _REPORT}.get(state)
            if layout is None:
                raise ProtocolError(f"slave: frame of state {state}, expected {HANDSHAKE} or {TRANSFER}")
            if len(self._buffer) < layout.size:
                return
            fields = layout.unpack_from(self._buffer)
            del self._buffer[: layout.size]
            if state == TRANSFER:
                yield SlaveReport(fields[1])
            else:
                yield SlaveHandshake(fields[3], fields[1] == 1, fields[2] == 1)


class MasterFrames:
    """Decodes the frames of a master, from pieces of any size."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def receive(self, data: Buffer) -> Iterator[MasterHandshake | MasterData]:
        """Return the frames that are complete. Raises ProtocolError; nothing can be decoded after it."""
        self._buffer += data
        while len(self._buffer) >= _MASTER_HANDSHAKE.size:
            state, size, *_ = _MASTER_HANDSHAKE.unpack_from(self._buffer)
            layout = _check_sizes(state, size)
            end = layout.size + size
            if len(self._buffer) < end:
                return
            fields, body = layout.unpack_from(self._buffer), bytes(self._buffer[layout.size : end])
            del self._buffer[:end]
            if state == TRANSFER:
                yield MasterData(fields[2], EpochEntry(*fields[3:5]), fields[5], body)
            else:
                yield MasterHandshake(fields[2], _decode_epochs(body))


def _check_sizes(state: int, size: int) -> struct.Struct:
    """Return the layout of a master's frame. Raises ProtocolError for a size that no frame has."""
    if state == HANDSHAKE:
        if size % _EPOCH.size or not 0 <= size <= EPOCHS_MAX * _EPOCH.size:
            raise ProtocolError(
                f"master: {size} bytes of epochs, expected 0 to {EPOCHS_MAX} times {_EPOCH.size}"
            )
        return _MASTER_HANDSHAKE
    if state == TRANSFER:
        if not 0 <= size <= DATA_SIZE_MAX:
            raise ProtocolError(f"master: {size} bytes of data in a frame, expected 0 to {DATA_SIZE_MAX}")
        return _DATA
    raise ProtocolError(f"master: frame of state {state}, expected {HANDSHAKE} or {TRANSFER}")


def _decode_epochs(body: bytes) -> EpochList:
    try:
        return EpochList(tuple(EpochEntry(*fields) for fields in _EPOCH.iter_unpack(body)))
    except FormatError as error:
        raise ProtocolError(f"master: {error}") from None
