"""The CommitLog: every message of every topic, one record behind the other. All else derives from it.

A write path (``write_path.py``) writes batches to the files. A record never spans two files: where the next
one does not fit, a blank of 8 bytes (number of bytes left, BLANK's magic) closes the file.

Source: RocketMQ ``store/CommitLog.java``.
"""

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from cometmq.errors import MessageIllegal, StoreNotWritable
from cometmq.format import property_crc
from cometmq.format.record import (
    END_FILE_MIN_BLANK,
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    PHYSICAL_OFFSET_AT,
    START_SIZE,
    SYS_FLAG_AT,
    encode_blank,
    encode_fields,
)
from cometmq.format.scan import Stop, check
from cometmq.io.descriptors import NO_DESCRIPTOR
from cometmq.io.open_files import OpenFiles
from cometmq.logs import get_logger
from cometmq.message import Buffer
from cometmq.store.append import Appended, NewMessage
from cometmq.store.files.spread import LogSpread
from cometmq.store.log import write_path
from cometmq.store.log.full_disk import FULL
from cometmq.store.log.refusals import Refusals
from cometmq.store.log.write_pool import WritePool
from cometmq.store.reading import Reading, ReadStep
from cometmq.store.settings import StoreSettings

log = get_logger(__name__)

SETTING = "mappedFileSizeCommitLog"

RECORD_START_SIZE = SYS_FLAG_AT
"""Bytes of a record that hold its size, magic and physical offset."""


class Pointers(NamedTuple):
    """Offsets of a store: ``written ≥ committed ≥ flushed`` and ``committed ≥ confirmed ≥ dispatched``.

    Attributes:
        begin: offset of the first record that is left.
        written: all before it is appended.
        committed: … is in the page cache; behind ``written`` only with the transient store pool.
        flushed: … is on the disk.
        confirmed: … may be read: what is committed, under SYNC_FLUSH what is flushed; under a controller only
            what all brokers in sync have.
        dispatched: … can be read through its queue.
    """

    begin: int
    written: int
    committed: int
    flushed: int
    confirmed: int
    dispatched: int


class CommitLog:
    """The log of records.

    Args:
        spread: where its files lie.
        settings: for the write path and the checksum; by default those of ``StoreSettings``.

    Attributes:
        crc: the checksum that is checked in records.
        refusals: why no messages are accepted now; set by all parts of the store, enforced by ``Appending``.
        written_offset: offset behind the last record.
        written_time: store time of the last record, ms.
    """

    def __init__(
        self, files: OpenFiles, spread: LogSpread, file_size: int, settings: StoreSettings | None = None
    ) -> None:
        settings = settings or StoreSettings()
        self.chain = spread.chain(files, file_size, SETTING)
        self.crc = settings.crc
        self.refusals = Refusals()
        self._path, self._next_file = write_path.choose(settings, self.chain, files.layer)
        self._pool = self._path if isinstance(self._path, WritePool) else None
        self._encode = _encode_sealed if settings.enabled_append_prop_crc else _encode
        self.written_offset = 0
        self.written_time = 0
        self._failed_until = 0  # a failed write may have left bytes between here and written_offset
        self._files_end = 0  # the end of the last file, as far as writes have had to know
        self._prepare_from = 0  # a write that ends behind it may have to prepare the next file

    @property
    def committed_offset(self) -> int:
        """Offset before which all is in the files: it can be read and survives a kill of the process."""
        return self.written_offset if self._pool is None else self._pool.committed_offset(self.written_offset)

    @property
    def free_buffers(self) -> int | None:
        """Number of free buffers of the transient store pool, None without a pool."""
        return None if self._pool is None else self._pool.free_buffers()

    @property
    def min_offset(self) -> int:
        """Offset of the first record that is left."""
        return self.chain.first_offset

    def append(
        self, messages: Sequence[NewMessage], queue_offsets: Iterable[int], store_time: int
    ) -> list[Appended]:
        """Append the messages' records.

        Raises MessageIllegal if a record breaks a limit, StoreNotWritable if the disk refuses; nothing is
        stored then.
        """
        if not messages:
            return []
        appended: list[Appended] = []
        writes: list[tuple[int, Buffer]] = []  # offset, bytes: one for each file
        begin = offset = self.written_offset
        end = offset + self.file_room
        parts: list[bytes] = []
        for message, queue_offset in zip(messages, queue_offsets, strict=True):
            record = self._encode(message, queue_offset, offset, store_time)
            if offset + len(record) + END_FILE_MIN_BLANK > end:
                self._check_fits(record)
                if end > offset:
                    parts.append(encode_blank(end - offset))
                    writes.append((begin, b"".join(parts)))
                    parts.clear()
                begin = offset = end
                end += self.chain.file_size
                record = self._encode(message, queue_offset, offset, store_time)
            parts.append(record)
            at = offset, queue_offset, len(record), store_time
            appended.append(tuple.__new__(Appended, at))  # in half the time of Appended(…)
            offset += len(record)
        writes.append((begin, b"".join(parts)))
        self._write(writes)
        self.written_offset = offset
        self.written_time = store_time
        return appended

    @property
    def file_room(self) -> int:
        """Bytes left in the file of the last record; 0 if it is full, or there is no record yet."""
        return -self.written_offset % self.chain.file_size

    def append_encoded(self, records: Buffer, store_time: int) -> None:
        """Append records that are encoded for ``written_offset``; with a blank they must fit into the file.

        Raises StoreNotWritable like ``append``.
        """
        begin = self.written_offset
        self._write(((begin, records),))
        self.written_offset = begin + len(records)
        self.written_time = store_time

    def begin_at(self, offset: int) -> None:
        """Set where the first file of an empty log begins: as a slave, at one of its master's files."""
        assert not self.chain.starts, f"{self.chain.directory} has files"
        self.written_offset = offset

    def commit(self) -> None:
        """Commit all written records to the files. Safe from any thread. Raises OSError; nothing is lost."""
        if self._pool is not None:
            self._pool.commit(self.written_offset)

    def close(self) -> None:
        """Close the write path, and remove a next file that is not used."""
        self._path.close()
        self._next_file.close()

    def stretch(self, physical_offset: int) -> tuple[int, int] | None:
        """Return the begin and end offset of the readable part of the file at an offset; None without it."""
        start = self.chain.start_of(physical_offset)
        return None if start is None else (start, min(start + self.chain.file_size, self.committed_offset))

    def read(self, physical_offset: int, size: int) -> bytes | None:
        """Return ``size`` bytes at ``physical_offset``, or None if they are not (or no longer) in the log."""
        stretch = self.stretch(physical_offset)
        if stretch is None or physical_offset + size > stretch[1]:
            return None
        at = physical_offset - stretch[0]
        return bytes(self.chain.file(stretch[0]).view()[at : at + size])

    def bytes_at(self, physical_offset: int, size: int) -> Reading[Buffer | None]:
        """Read bytes like ``read``, as a reading."""
        stretch = self.stretch(physical_offset)
        if stretch is None or physical_offset + size > stretch[1]:
            return None
        path = self.chain.path(stretch[0])
        found = yield ReadStep(self.chain.files, path, [(physical_offset - stretch[0], size)])
        return found[0] if found else None

    def read_record(self, physical_offset: int, *, damaged: bool = False) -> bytes | None:
        """Return the record that begins at ``physical_offset``, or None if none does.

        A record whose checks fail is logged and counts as none, unless ``damaged`` is set.
        """
        head = self.read(physical_offset, RECORD_START_SIZE)
        size = None if head is None else size_of_record(head, physical_offset)
        record = None if size is None else self.read(physical_offset, size)
        return record if damaged else self._checked(physical_offset, record)

    def record_at(self, physical_offset: int) -> Reading[bytes | None]:
        """Read a record like ``read_record``, as a reading."""
        start = yield from self.bytes_at(physical_offset, RECORD_START_SIZE)
        size = None if start is None else size_of_record(start, physical_offset)
        record = None if size is None else (yield from self.bytes_at(physical_offset, size))
        return self._checked(physical_offset, None if record is None else bytes(record))

    def _checked(self, physical_offset: int, record: bytes | None) -> bytes | None:
        if record is None:
            return None
        found = check(record, 0, len(record), base_offset=physical_offset, crc=self.crc)
        if not isinstance(found, Stop):
            return record
        start = self.chain.start_of(physical_offset)
        if start is not None:
            where = physical_offset - start
            log.error("%s, byte %d: the record is damaged: %s", self.chain.path(start), where, found.detail)
        return None

    def _check_fits(self, record: bytes) -> None:
        most = self.chain.file_size - END_FILE_MIN_BLANK
        if len(record) > most:
            raise MessageIllegal(
                f"record of {len(record)} bytes: a CommitLog file takes at most {most}; "
                f"send a smaller message or raise {SETTING}"
            )

    def _write(self, writes: Sequence[tuple[int, Buffer]]) -> None:
        try:
            if self._failed_until:
                self.clear_failed()
            for offset, data in writes:
                if data:
                    self._failed_until = offset + len(data)
                    if offset >= self._files_end:
                        self._extend(offset)
                    self._path.write(offset, data)
        except OSError as error:
            failed = max(self._failed_until - 1, 0)
            directory = self.chain.path(failed - failed % self.chain.file_size).parent
            with suppress(OSError):  # retried before the next write
                self.clear_failed()
            raise StoreNotWritable(describe(error, directory)) from error
        if self._failed_until > self._prepare_from:
            self._prepare_from = self._next_file.prepare(self._failed_until)
        self._failed_until = 0

    def _extend(self, offset: int) -> None:
        """Add the file in which ``offset`` is, unless there is one. Raises OSError."""
        if offset >= self.chain.end_offset:
            self._next_file.add(offset - offset % self.chain.file_size)
        self._files_end = self.chain.end_offset

    def clear_failed(self) -> None:
        """Overwrite what a failed write left with zeros, or recovery would find records. Raises OSError.

        A full disk accepts them, since they only replace data.
        """
        offset = self.written_offset
        while offset < self._failed_until and (start := self.chain.start_of(offset)) is not None:
            file = self.chain.file(start)
            position, end = offset - start, min(self._failed_until - start, self.chain.file_size)
            data_end = min(file.data_end(position), end)
            if data_end > position:
                file.write(position, bytes(data_end - position))
            offset = start + end
        self._failed_until = 0


def size_of_record(start: Buffer, physical_offset: int) -> int | None:
    """Return the size of the record that begins with ``start``; None if that is no record of this offset."""
    size, magic = int.from_bytes(start[:MAGIC_AT], "big"), int.from_bytes(start[MAGIC_AT:START_SIZE], "big")
    offset = int.from_bytes(start[PHYSICAL_OFFSET_AT:RECORD_START_SIZE], "big")
    return size if offset == physical_offset and magic in (MAGIC_V1, MAGIC_V2) else None


def describe(error: OSError, directory: Path) -> str:
    """Describe an error of the disk and its remedy."""
    if error.errno in FULL:
        return f"disk full under {directory}: free some space; sending goes on then without a restart"
    if error.errno in NO_DESCRIPTOR:
        return (
            f"no file descriptor is left to write under {directory}: allow more (ulimit -n) or fewer "
            "connections (maxConnections); sending goes on then without a restart"
        )
    return f"cannot write under {directory}: {os.strerror(error.errno or 0)}"


def _encode(message: NewMessage, queue_offset: int, physical_offset: int, store_time: int) -> bytes:
    (
        topic,
        queue_id,
        body,
        properties,
        born_time,
        born_host,
        store_host,
        _tags,
        flag,
        sys_flag,
        reconsume_times,
        prepared_transaction_offset,
    ) = message  # at once: an attribute of a tuple costs as much as two of these
    return encode_fields(
        topic,
        body,
        properties,
        queue_id,
        queue_offset,
        physical_offset,
        flag,
        sys_flag,
        born_time,
        born_host,
        store_time,
        store_host,
        reconsume_times,
        prepared_transaction_offset,
    )


def _encode_sealed(message: NewMessage, queue_offset: int, physical_offset: int, store_time: int) -> bytes:
    room = property_crc.reserve(message.properties)
    return property_crc.seal(
        _encode(message._replace(properties=room), queue_offset, physical_offset, store_time)
    )
