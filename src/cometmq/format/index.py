"""The index file: a hash table on disk from ``topic#key`` to CommitLog offsets.

A file is a header, then a fixed number of slots, then room for a fixed number of entries::

    header 40 bytes | slot × slot_count, 4 bytes each | entry × entry_count, 20 bytes each

Header:

====== ==== ===================== ======================================================
Offset Size Field                 What it is for
====== ==== ===================== ======================================================
0      8    begin time            store time of the first record in it; base of time diffs
8      8    end time              store time of the last record in it
16     8    begin physical offset CommitLog offset of the first record in it
24     8    end physical offset   … of the last: older records are not indexed again
32     4    used slots            slots with at least one entry; only for information
36     4    next entry            number of the next entry to append; begins at 1
====== ==== ===================== ======================================================

Slot: the number of the newest entry whose key hashes to it; 0 if there is none.

Entry:

====== ==== ===================== ======================================================
Offset Size Field                 What it is for
====== ==== ===================== ======================================================
0      4    key hash              non-negative Java hash of ``topic#key``
4      8    physical offset       where the record lies in the CommitLog
12     4    time diff             store time minus the header's begin time, whole seconds
16     4    previous              entry before this one in the same slot; 0 ends the chain
====== ==== ===================== ======================================================

All big-endian, signed. Entry 0 exists but is never used, so a file holds at most ``entry_count - 1`` entries.
Since RocketMQ 5.4 the tags are indexed too, after the keys, as the key ``T#<tags>``.

Source: RocketMQ ``store/index/IndexHeader.java``, ``store/index/IndexFile.java``.
"""

import struct
from typing import Final, NamedTuple

from cometmq.errors import FormatError
from cometmq.message import Buffer

HEADER_SIZE: Final = 40
SLOT_SIZE: Final = 4
ENTRY_SIZE: Final = 20

NO_ENTRY: Final = 0
"""The entry number in an empty slot and at the end of a chain."""
FIRST_ENTRY: Final = 1
TIME_DIFF_MAX_S: Final = 0x7FFF_FFFF
TAGS_KEY_PREFIX: Final = "T#"
"""Marks tags in the index. Keys have no prefix, so a look-up of key ``T#x`` also finds messages of tag x."""

_HEADER: Final = struct.Struct(">qqqqii")
_SLOT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">iqii")
assert (_HEADER.size, _SLOT.size, _ENTRY.size) == (HEADER_SIZE, SLOT_SIZE, ENTRY_SIZE)


class IndexHeader(NamedTuple):
    """The header of an index file. Times in ms since the epoch, offsets in the CommitLog in bytes."""

    begin_time: int = 0
    end_time: int = 0
    begin_physical_offset: int = 0
    end_physical_offset: int = 0
    used_slots: int = 0
    next_entry: int = FIRST_ENTRY

    def pack(self) -> bytes:
        """Encode the 40 bytes of the header."""
        return _HEADER.pack(*self)

    @classmethod
    def unpack(cls, buffer: Buffer) -> "IndexHeader":
        """Decode the header at the beginning of ``buffer``.

        A file that was created but never written holds 0 as its next entry, which is returned as 1.
        Raises FormatError if there are fewer than 40 bytes.
        """
        if len(buffer) < HEADER_SIZE:
            raise FormatError(f"index header: needs {HEADER_SIZE} bytes, got {len(buffer)}")
        header = cls._make(_HEADER.unpack_from(buffer))
        return header if header.next_entry > NO_ENTRY else header._replace(next_entry=FIRST_ENTRY)


class IndexEntry(NamedTuple):
    """The entry of one key of one record."""

    key_hash: int
    physical_offset: int
    time_diff_s: int
    previous: int

    def pack(self) -> bytes:
        """Encode the 20 bytes of the entry."""
        return _ENTRY.pack(*self)

    @classmethod
    def unpack(cls, buffer: Buffer, position: int = 0) -> "IndexEntry":
        """Decode the entry at ``position``. Raises FormatError if there are fewer than 20 bytes."""
        try:
            return cls._make(_ENTRY.unpack_from(buffer, position))
        except struct.error:
            raise FormatError(
                f"index entry at {position}: needs {ENTRY_SIZE} bytes of the {len(buffer)} there"
            ) from None

    def store_time(self, begin_time: int) -> int:
        """Return the record's store time to the second, ms since the epoch, by the header's begin time."""
        return begin_time + self.time_diff_s * 1000


def time_diff_s(store_time: int, begin_time: int) -> int:
    """Return the time diff of an entry: seconds from the file's begin time to the store time, at least 0."""
    if begin_time <= 0:
        return 0
    return min(max(store_time - begin_time, 0) // 1000, TIME_DIFF_MAX_S)


def pack_slot(entry: int) -> bytes:
    """Encode the 4 bytes of a slot that holds the number ``entry``."""
    return _SLOT.pack(entry)


def unpack_slot(buffer: Buffer, position: int = 0) -> int:
    """Decode the slot at ``position``. Raises FormatError if there are fewer than 4 bytes."""
    try:
        entry: int = _SLOT.unpack_from(buffer, position)[0]
    except struct.error:
        raise FormatError(
            f"index slot at {position}: needs {SLOT_SIZE} bytes of the {len(buffer)} there"
        ) from None
    return entry


def slot_of(key_hash: int, slot_count: int) -> int:
    """Return the number of the slot that a (non-negative) key hash belongs to."""
    return key_hash % slot_count


def slot_position(slot: int) -> int:
    """Return the position of a slot in the file, in bytes."""
    return HEADER_SIZE + slot * SLOT_SIZE


def entry_position(number: int, slot_count: int) -> int:
    """Return the position of an entry in the file, in bytes."""
    return HEADER_SIZE + slot_count * SLOT_SIZE + number * ENTRY_SIZE


def file_size(slot_count: int, entry_count: int) -> int:
    """Return the length of an index file, in bytes."""
    return entry_position(entry_count, slot_count)


assert file_size(5_000_000, 20_000_000) == 420_000_040  # RocketMQ's default
