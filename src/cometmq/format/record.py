"""The CommitLog record: the form in which a message is stored and in which consumers pull it.

All numbers are big-endian and signed, except MAGIC. The offsets below hold if both hosts are IPv4; each
IPv6 host moves the fields after it by 12.

======  ======  ===========================  =========================================================
offset  size    field                        meaning
======  ======  ===========================  =========================================================
0       4       TOTALSIZE                    bytes of the whole record, these 4 included
4       4       MAGIC                        V1, V2 or BLANK: by it a reader finds a record's start
8       4       BODYCRC                      CRC-32 of the stored body, 31 bits; protects the body alone
12      4       QUEUEID                      which queue of the topic
16      4       FLAG                         the application's own number
20      8       QUEUEOFFSET                  index of the message in its queue
28      8       PHYSICALOFFSET               CommitLog offset of byte 0: distinguishes a record from a copy
36      4       SYSFLAG                      transaction, compression, host sizes: see ``sys_flag``
40      8       BORNTIMESTAMP                when the producer created it, ms
48      8, 20   BORNHOST                     the producer's address: see ``host``
56      8       STORETIMESTAMP               when the broker appended it, ms
64      8, 20   STOREHOST                    the broker's address
72      4       RECONSUMETIMES               how often a consumer group failed on it
76      8       PREPARED TRANSACTION OFFSET  of a committed message, CommitLog offset of its half message
84      4       BODYLEN
88      n       body                         as sent, possibly compressed
88 + n  1, 2    TOPICLEN                     1 byte in V1 (at most 127), 2 bytes in V2
…       n       topic                        UTF-8
…       2       PROPLEN                      at most 32767
…       n       properties                   see ``properties``; their last may protect all: ``property_crc``
======  ======  ===========================  =========================================================

V2 is written for topics of more than 127 characters. A CommitLog file ends in a BLANK of 8 bytes:
the number of bytes left in the file, and BLANK's magic; the bytes after it mean nothing.

Damage raises DamagedRecord and nothing else. A topic that is not UTF-8 is not damage: it is decoded
with the escapes of ``surrogateescape``, and properties stay bytes, so that encoding a decoded record
returns the very same bytes.

Source: RocketMQ: MessageExtEncoder.java, CommitLog.java, MessageDecoder.java, MessageVersion.java.
"""

import struct
from collections.abc import Iterator, Mapping
from operator import itemgetter
from struct import Struct, calcsize
from typing import Final, NamedTuple
from zlib import crc32

from cometmq.errors import CutRecord, DamagedRecord, MessageIllegal
from cometmq.format import property_crc
from cometmq.format.checksum import Crc, body_crc
from cometmq.format.host import IPV4_SIZE, IPV6_SIZE
from cometmq.format.properties import MAX_LENGTH as PROPERTIES_MAX_LENGTH
from cometmq.format.sys_flag import BORN_HOST_V6, HOSTS_V6, STORE_HOST_V6
from cometmq.message import Buffer

MAGIC_V1: Final = 0xDAA320A7
MAGIC_V2: Final = 0xDAA320AB
MAGIC_BLANK: Final = 0xCBD43194
MAGICS: Final = tuple(magic.to_bytes(4, "big") for magic in (MAGIC_V1, MAGIC_V2))
"""The MAGIC of records, as it is stored."""

INT: Final = "i"
UNSIGNED: Final = "I"
LONG: Final = "q"
HOST: Final = f"{IPV4_SIZE}s"
"""What a field holds, as ``struct`` spells it: int32, uint32, int64, a host (20 bytes if it is IPv6)."""

FIELDS: Final[Mapping[str, str]] = {
    "size": INT,
    "magic": UNSIGNED,
    "body_crc": UNSIGNED,
    "queue_id": INT,
    "flag": INT,
    "queue_offset": LONG,
    "physical_offset": LONG,
    "sys_flag": INT,
    "born_time": LONG,
    "born_host": HOST,
    "store_time": LONG,
    "store_host": HOST,
    "reconsume_times": INT,
    "prepared_transaction_offset": LONG,
    "body_length": INT,
}
"""The fields before the body, in their order: the only table of them, from which all else is derived."""


def _kinds(sys_flag: int) -> dict[str, str]:
    v6_bits = {"born_host": BORN_HOST_V6, "store_host": STORE_HOST_V6}
    return {**FIELDS, **{name: f"{IPV6_SIZE}s" for name, bit in v6_bits.items() if sys_flag & bit}}


def field_at(name: str, sys_flag: int = 0) -> int:
    """Return where a field begins in a record with this SYSFLAG, of which only the host bits count."""
    return calcsize(">" + "".join(list(_kinds(sys_flag).values())[: list(FIELDS).index(name)]))


SIZE_AT: Final = field_at("size")
MAGIC_AT: Final = field_at("magic")
BODY_CRC_AT: Final = field_at("body_crc")
QUEUE_ID_AT: Final = field_at("queue_id")
FLAG_AT: Final = field_at("flag")
QUEUE_OFFSET_AT: Final = field_at("queue_offset")
PHYSICAL_OFFSET_AT: Final = field_at("physical_offset")
SYS_FLAG_AT: Final = field_at("sys_flag")
BORN_TIME_AT: Final = field_at("born_time")
BORN_HOST_AT: Final = field_at("born_host")
# From here on with both hosts IPv4: add HOST_GROWTH for each IPv6 host before the field.
STORE_TIME_AT: Final = field_at("store_time")
STORE_HOST_AT: Final = field_at("store_host")
RECONSUME_TIMES_AT: Final = field_at("reconsume_times")
PREPARED_TRANSACTION_OFFSET_AT: Final = field_at("prepared_transaction_offset")
BODY_LENGTH_AT: Final = field_at("body_length")
BODY_AT: Final = calcsize(">" + "".join(FIELDS.values()))
HOST_GROWTH: Final = IPV6_SIZE - IPV4_SIZE

_SHORT: Final = Struct(">h")
_TOPIC_LENGTHS: Final = {MAGIC_V1: Struct(">b"), MAGIC_V2: _SHORT}
TOPIC_LENGTH_SIZE_V1: Final = _TOPIC_LENGTHS[MAGIC_V1].size
TOPIC_LENGTH_SIZE_V2: Final = _TOPIC_LENGTHS[MAGIC_V2].size
PROPERTIES_LENGTH_SIZE: Final = _SHORT.size

HEAD_MAX_SIZE: Final = BODY_AT + 2 * HOST_GROWTH
"""Bytes before the body if both hosts are IPv6: this many are enough to read any record's fixed fields."""
MIN_SIZE: Final = BODY_AT + TOPIC_LENGTH_SIZE_V1 + PROPERTIES_LENGTH_SIZE
"""Bytes of an empty V1 record with IPv4 hosts."""
START: Final = Struct(f">{INT}{UNSIGNED}")
"""TOTALSIZE and MAGIC, with which records and blanks begin."""
START_SIZE: Final = START.size
END_FILE_MIN_BLANK: Final = START_SIZE
"""Bytes that an append leaves free in a file, so that a blank always fits."""
TOPIC_MAX_LENGTH_V1: Final = 127
TOPIC_MAX_LENGTH_V2: Final = 32767

_TOPIC_MAX: Final = {MAGIC_V1: TOPIC_MAX_LENGTH_V1, MAGIC_V2: TOPIC_MAX_LENGTH_V2}
_SYS_FLAG: Final = Struct(f">{INT}")
_HOSTS_SHIFT: Final = 4
_HEADS: Final = [Struct(">" + "".join(_kinds(bits << _HOSTS_SHIFT).values())) for bits in range(4)]
"""The fields before the body, by the two host bits of SYSFLAG."""
_PHYSICAL_OFFSET, _BODY_LENGTH = map(list(FIELDS).index, ("physical_offset", "body_length"))
_BODY, _RECORD = Crc.BODY, Crc.RECORD  # a member of an enumeration takes 80 ns to look up
_HOST_FLAGS: Final = {
    (IPV4_SIZE, IPV4_SIZE): 0,
    (IPV6_SIZE, IPV4_SIZE): BORN_HOST_V6,
    (IPV4_SIZE, IPV6_SIZE): STORE_HOST_V6,
    (IPV6_SIZE, IPV6_SIZE): HOSTS_V6,
}

assert [head.size for head in _HEADS] == [88, 100, 100, 112] == [BODY_AT, 100, 100, HEAD_MAX_SIZE]


class Record(NamedTuple):
    """The fields of a record.

    Attributes:
        properties: the properties string as stored: see ``properties.decode``.
        born_time: ms since the epoch, as is ``store_time``.
        born_host: 8 or 20 bytes, as is ``store_host``: see ``host.unpack_host``.
        body_crc: as stored; if None, ``encode`` computes it.
        magic: MAGIC_V1 or MAGIC_V2; if None, ``encode`` chooses by the topic's length.
    """

    topic: str
    body: bytes
    properties: bytes
    queue_id: int
    queue_offset: int
    physical_offset: int
    flag: int
    sys_flag: int
    born_time: int
    born_host: bytes
    store_time: int
    store_host: bytes
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0
    body_crc: int | None = None
    magic: int | None = None


class RecordHead(NamedTuple):
    """The fields before the body, as stored, and the positions of the other parts, in bytes of the buffer."""

    position: int
    size: int
    magic: int
    body_crc: int
    queue_id: int
    flag: int
    queue_offset: int
    physical_offset: int
    sys_flag: int
    born_time: int
    born_host: bytes
    store_time: int
    store_host: bytes
    reconsume_times: int
    prepared_transaction_offset: int
    body_length: int
    body_position: int
    topic_position: int
    topic_length: int
    properties_position: int
    properties_length: int


assert RecordHead._fields[1 : 1 + len(FIELDS)] == tuple(FIELDS)
_OF_RECORD: Final = itemgetter(*map(RecordHead._fields.index, Record._fields[3:]))
"""Gets the fields of a head that a ``Record`` has, in its order."""


def encode(record: Record) -> bytes:
    """Encode a record: see ``encode_fields``."""
    return encode_fields(*record)


def encode_fields(
    topic: str,
    body: Buffer,
    properties: Buffer,
    queue_id: int,
    queue_offset: int,
    physical_offset: int,
    flag: int,
    sys_flag: int,
    born_time: int,
    born_host: bytes,
    store_time: int,
    store_host: bytes,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    body_crc: int | None = None,
    magic: int | None = None,
) -> bytes:
    """Encode a record from its fields, in the order of ``Record``: an append need not build a ``Record``.

    The host bits of SYSFLAG follow the hosts' lengths.

    Raises:
        MessageIllegal: topic or properties too long, a host of neither 8 nor 20 bytes, another magic,
            or a number that its field cannot hold.
    """
    magic = magic or _magic_for(topic)
    host_flags = _HOST_FLAGS.get((len(born_host), len(store_host)))
    if host_flags is None:
        raise MessageIllegal(f"hosts of {len(born_host)} and {len(store_host)} bytes, must be 8 or 20")
    head = _HEADS[host_flags >> _HOSTS_SHIFT]
    properties_length = len(properties)
    if properties_length > PROPERTIES_MAX_LENGTH:
        raise MessageIllegal(f"properties of {properties_length} bytes, the limit is {PROPERTIES_MAX_LENGTH}")
    try:
        topic_bytes = topic.encode("utf-8", "surrogateescape")
        topic_part = _TOPIC_LENGTHS[magic].pack(len(topic_bytes)) + topic_bytes
        size = head.size + len(body) + len(topic_part) + PROPERTIES_LENGTH_SIZE + properties_length
        fixed = head.pack(
            size,
            magic,
            crc32(body) & property_crc.MASK if body_crc is None else body_crc,
            queue_id,
            flag,
            queue_offset,
            physical_offset,
            sys_flag & ~HOSTS_V6 | host_flags,
            born_time,
            born_host,
            store_time,
            store_host,
            reconsume_times,
            prepared_transaction_offset,
            len(body),
        )
    except (struct.error, UnicodeEncodeError, KeyError) as error:
        raise MessageIllegal(f"topic {topic!r}: a field cannot hold its value: {error}") from None
    return b"".join((fixed, body, topic_part, _SHORT.pack(properties_length), properties))


def encode_blank(size: int) -> bytes:
    """Encode the 8 bytes of a blank that covers the last ``size`` bytes of a CommitLog file."""
    return START.pack(size, MAGIC_BLANK)


def size_of(record: Record) -> int:
    """Return the length of ``record`` in bytes."""
    head = _HEADS[_HOST_FLAGS[len(record.born_host), len(record.store_host)] >> _HOSTS_SHIFT]
    topic_length = _TOPIC_LENGTHS[record.magic or _magic_for(record.topic)].size
    topic_length += len(record.topic.encode("utf-8", "surrogateescape"))
    return head.size + len(record.body) + topic_length + PROPERTIES_LENGTH_SIZE + len(record.properties)


def decode(buffer: Buffer, position: int = 0, *, crc: Crc = Crc.BODY) -> Record:
    """Decode the record that begins at ``position``.

    Raises:
        CutRecord: the buffer ends before the record does.
        DamagedRecord: the bytes are not a record; the reason names the failed check.
    """
    head = read_head(buffer, position)
    verify(buffer, head, crc)
    return record_at(buffer, head)


def decode_many(buffer: Buffer) -> Iterator[Record]:
    """Decode the records of a pull answer's body, one after the other.

    Raises:
        DamagedRecord: see ``decode``; the records before it have been yielded.
    """
    position = 0
    buffer = memoryview(buffer)  # a slice of it copies nothing
    while position < len(buffer):
        head = read_head(buffer, position)
        verify(buffer, head, Crc.BODY)
        yield record_at(buffer, head)
        position += head.size


def read_head(
    buffer: Buffer, position: int, end: int | None = None, *, physical_offset: int | None = None
) -> RecordHead:
    """Decode the fixed fields of the record at ``position`` and check all but the CRCs.

    No byte past ``end`` is read. With ``physical_offset``, PHYSICALOFFSET must equal it. The checks and their
    order are listed in ``scan``.

    Raises:
        CutRecord: the record extends past ``end``.
        DamagedRecord: the bytes are not a record; the reason names the failed check.
    """
    if end is None or end > len(buffer):
        end = len(buffer)
    remaining = end - position
    if position < 0:
        raise DamagedRecord(position, "the position is negative")
    if remaining < START_SIZE:
        raise CutRecord(position, f"{remaining} bytes are left, a record begins with {START_SIZE}")
    size, magic = START.unpack_from(buffer, position)
    topic_field = _TOPIC_LENGTHS.get(magic)
    if topic_field is None:
        raise DamagedRecord(position, f"magic {magic:#010x} is not that of a record")
    if size < MIN_SIZE:
        raise DamagedRecord(position, f"TOTALSIZE {size} is below the minimum of {MIN_SIZE}")
    if remaining < HEAD_MAX_SIZE and size > remaining:
        raise CutRecord(position, f"TOTALSIZE {size}, but {remaining} bytes are left")

    (hosts,) = _SYS_FLAG.unpack_from(buffer, position + SYS_FLAG_AT)
    head = _HEADS[(hosts & HOSTS_V6) >> _HOSTS_SHIFT]
    rest_min = topic_field.size + PROPERTIES_LENGTH_SIZE
    if size < head.size + rest_min:
        raise DamagedRecord(position, f"TOTALSIZE {size} is below the minimum of {head.size + rest_min}")
    fields = head.unpack_from(buffer, position)
    stored_offset, body_length = fields[_PHYSICAL_OFFSET], fields[_BODY_LENGTH]
    rest = size - head.size - body_length
    if body_length < 0 or not 0 <= rest - rest_min <= _TOPIC_MAX[magic] + PROPERTIES_MAX_LENGTH:
        raise DamagedRecord(position, f"BODYLEN {body_length} cannot be in a record of {size} bytes")
    if physical_offset is not None and stored_offset != physical_offset:
        raise DamagedRecord(position, f"PHYSICALOFFSET {stored_offset}, but it lies at {physical_offset}")
    if size > remaining:
        raise CutRecord(position, f"TOTALSIZE {size}, but {remaining} bytes are left")

    body_position = position + head.size
    (topic_length,) = topic_field.unpack_from(buffer, body_position + body_length)
    topic_position = body_position + body_length + topic_field.size
    properties_position = topic_position + topic_length + PROPERTIES_LENGTH_SIZE
    record_end = position + size
    if topic_length < 0 or properties_position > record_end:
        raise DamagedRecord(position, f"TOPICLEN {topic_length} cannot be in a record of {size} bytes")
    (properties_length,) = _SHORT.unpack_from(buffer, properties_position - PROPERTIES_LENGTH_SIZE)
    if properties_length < 0 or properties_position + properties_length != record_end:
        raise DamagedRecord(position, f"PROPLEN {properties_length} does not end a record of {size} bytes")
    parts = (body_position, topic_position, topic_length, properties_position, properties_length)
    return tuple.__new__(RecordHead, (position, *fields, *parts))  # as _make, in two thirds of its time


def verify(buffer: Buffer, head: RecordHead, crc: Crc) -> None:
    """Compare a checksum of a record whose head has been read. Raises DamagedRecord if it differs."""
    if crc is _BODY and head.body_length:
        found = body_crc(buffer[head.body_position : head.body_position + head.body_length])
        if found != head.body_crc:
            raise DamagedRecord(
                head.position, f"BODYCRC {head.body_crc:#010x}, but the body has {found:#010x}"
            )
    elif crc is _RECORD and not (
        head.properties_length >= property_crc.SIZE
        and property_crc.is_sealed(buffer[head.position : head.position + head.size])
    ):
        raise DamagedRecord(head.position, "the record does not end in the property CRC of its other bytes")


def record_at(buffer: Buffer, head: RecordHead) -> Record:
    """Decode the record in ``buffer`` whose head has been read."""
    topic = buffer[head.topic_position : head.topic_position + head.topic_length]
    return Record(
        str(topic, "utf-8", "surrogateescape"),
        bytes(buffer[head.body_position : head.body_position + head.body_length]),
        bytes(buffer[head.properties_position : head.properties_position + head.properties_length]),
        *_OF_RECORD(head),
    )


def _magic_for(topic: str) -> int:
    return MAGIC_V1 if len(topic) <= TOPIC_MAX_LENGTH_V1 else MAGIC_V2
