"""The two ids of a message, as upper-case hex.

Offset id: made by the broker from the location of the record. 16 bytes, 28 if the host is IPv6.

====== ===== =============== ================================================================
Offset Size  Field           What it is for
====== ===== =============== ================================================================
0      8, 20 store host      the broker that stores it: address and port (see ``host``)
8, 20  8     physical offset first byte of the record in that broker's CommitLog
====== ===== =============== ================================================================

Unique id: made by the producer, stays the same through retries; kept as property UNIQ_KEY. 16 bytes, 28
when the address is IPv6.

====== ===== =============== ================================================================
Offset Size  Field           What it is for
====== ===== =============== ================================================================
0      4, 16 address         the producer's machine
4, 16  2     pid             the process there (its low 16 bits)
6, 18  4     loader hash     any number that separates producers within one process id
10, 22 4     time            ms since the month began in local time
14, 26 2     counter         distinguishes the messages of one ms; wraps
====== ===== =============== ================================================================

Numbers are big-endian. An id itself does not say which of the two kinds it is.

Source: RocketMQ ``MessageDecoder.java`` (createMessageId, decodeMessageId), ``MessageClientIDSetter.java``.
"""

import struct
from datetime import datetime, tzinfo
from itertools import count, islice
from typing import Final, NamedTuple

from cometmq.errors import FormatError
from cometmq.format.host import IPV4_SIZE, IPV6_SIZE

ID_SIZE: Final = 16
ID_SIZE_V6: Final = 28

OFFSET_ID: Final = "%s%016X"
"""The same id from the store host as upper-case hex and the physical offset, where many have one host."""
_OFFSET: Final = struct.Struct(">q")
_PROCESS: Final = struct.Struct(">HI")
_TIME_AND_COUNTER: Final = struct.Struct(">IH")
_IPV4: Final = 4
_IPV6: Final = 16
assert IPV4_SIZE + _OFFSET.size == ID_SIZE == _IPV4 + _PROCESS.size + _TIME_AND_COUNTER.size
assert IPV6_SIZE + _OFFSET.size == ID_SIZE_V6 == _IPV6 + _PROCESS.size + _TIME_AND_COUNTER.size

_HEX: Final = tuple(f"{byte:02X}" for byte in range(256))
"""Bytes as hex text: a look-up costs half of formatting the number."""
_CLOCK_STEP_MAX_MS: Final = 1_000_000
"""A clock set back by less than this across the beginning of a month counts as at the beginning."""


class OffsetMessageId(NamedTuple):
    """The fields of an offset id; ``host.unpack_host`` decodes the host."""

    store_host: bytes
    physical_offset: int


def offset_message_id(store_host: bytes, physical_offset: int) -> str:
    """Build the offset id of a record from its store host (8 or 20 bytes) and its physical offset."""
    return (store_host + _OFFSET.pack(physical_offset)).hex().upper()


def parse_offset_message_id(text: str) -> OffsetMessageId:
    """Decode an offset id in upper or lower case. Raises FormatError if it is not an offset id."""
    data = _from_hex("offset message id", text)
    host, offset = data[: -_OFFSET.size], data[-_OFFSET.size :]
    return OffsetMessageId(host, _OFFSET.unpack(offset)[0])


class UniqueIdMaker:
    """Create the unique ids of one process. Threads may share it.

    Args:
        address: the machine's IP address, 4 or 16 bytes.
        pid: the process id; its low 16 bits are used.
        loader_hash: any number that distinguishes this maker from others in the same process.
        tz: the time zone in which months begin, local time by default.
    """

    def __init__(self, address: bytes, pid: int, loader_hash: int, tz: tzinfo | None = None) -> None:
        assert len(address) in (_IPV4, _IPV6), address
        self._process = (address + _PROCESS.pack(pid & 0xFFFF, loader_hash & 0xFFFF_FFFF)).hex().upper()
        self._tz = tz
        self._counter = count()
        self._month = (0, 0)
        self._made = (-1, "")  # ms of the last id, and all of it but the counter

    def make(self, now_ms: int) -> str:
        """Create the next id, at ``now_ms`` since the epoch."""
        made_ms, head = self._made
        if made_ms != now_ms:
            head = f"{self._process}{self._since_month_began(now_ms):08X}"
            self._made = now_ms, head
        counter = next(self._counter)
        return f"{head}{_HEX[counter >> 8 & 0xFF]}{_HEX[counter & 0xFF]}"

    def make_many(self, now_ms: int, number: int) -> list[str]:
        """Create ``number`` ids, far fewer than the 65,536 that the counter distinguishes within a ms."""
        head = self.make(now_ms)[:-4]
        counters = islice(self._counter, number)
        return [f"{head}{_HEX[counter >> 8 & 0xFF]}{_HEX[counter & 0xFF]}" for counter in counters]

    def _since_month_began(self, now_ms: int) -> int:
        begin, end = self._month
        if not begin - _CLOCK_STEP_MAX_MS < now_ms < end:
            begin, end = self._month = _month_of(now_ms, self._tz)
        return max(now_ms - begin, 0)


def unique_id_time(text: str, now_ms: int, tz: tzinfo | None = None) -> int:
    """Return when a unique id was made, ms since the epoch, if that was within the month before ``now_ms``.

    Args:
        text: the id.
        now_ms: when it is read, ms since the epoch: the id itself does not contain the month.
        tz: the time zone of the producer, local time by default.

    Raises:
        FormatError: ``text`` is not a unique id.
    """
    data = _from_hex("unique message id", text)
    since_month_began, _ = _TIME_AND_COUNTER.unpack_from(data, len(data) - _TIME_AND_COUNTER.size)
    begin, _ = _month_of(now_ms, tz)
    if begin + since_month_began > now_ms:
        begin, _ = _month_of(begin - 1, tz)
    return int(begin + since_month_began)


def _month_of(time_ms: int, tz: tzinfo | None) -> tuple[int, int]:
    """Return the beginnings of the month of ``time_ms`` and of the next month, ms since the epoch."""
    begin = datetime.fromtimestamp(time_ms // 1000, tz).replace(day=1, hour=0, minute=0, second=0)
    year, month = divmod(begin.year * 12 + begin.month, 12)
    end = begin.replace(year=year, month=month + 1)
    return int(begin.timestamp()) * 1000, int(end.timestamp()) * 1000


def _from_hex(kind: str, text: str) -> bytes:
    if len(text) not in (2 * ID_SIZE, 2 * ID_SIZE_V6):
        raise FormatError(
            f"{kind} {text[:60]!r} has {len(text)} characters: must have {2 * ID_SIZE} or {2 * ID_SIZE_V6}"
        )
    try:
        data = bytes.fromhex(text)
    except ValueError:
        raise FormatError(f"{kind} {text!r}: must be hexadecimal digits only") from None
    if len(data) * 2 != len(text):  # fromhex ignores blanks
        raise FormatError(f"{kind} {text!r}: must be hexadecimal digits only")
    return data
