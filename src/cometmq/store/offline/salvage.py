"""Salvage a damaged store: copy all readable records into a new, sound one; the damaged one is only read.

Every record keeps its CommitLog offset, and with it its offset id, its queue and its queue offset. The new
log must not end where records are lost, so lost stretches are filled:

* between two records of a file with one record of that length, a rolled back transaction of the topic
  ``SALVAGED``: it is in no queue and in no index, and a Java broker skips it too;
* behind the last record of a file with a blank; a missing file becomes one that is all blank.

ConsumeQueues and index are rebuilt from that log; queue offsets of lost messages hold fillers. Tables in
``config/`` are copied, or their backups if they cannot be read.
"""

from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from cometmq import kernels
from cometmq.errors import FormatError, SettingsError, StoreLocked
from cometmq.format import layout, property_crc, record
from cometmq.format.checksum import Crc
from cometmq.format.java import fastjson
from cometmq.format.scan import StopReason, check, find_next_record
from cometmq.format.sys_flag import TRANSACTION_ROLLBACK
from cometmq.io.files import Disk, File, FileLayer
from cometmq.io.regular import NotRegularFile
from cometmq.store import foreign
from cometmq.store.directory import check_is_store
from cometmq.store.files.folders import LOST_AND_FOUND, files_in
from cometmq.store.files.sizes import infer_settings
from cometmq.store.files.spread import LogSpread, in_root, spread_of
from cometmq.store.log.log_scan import NO_RECORD, LogDamage
from cometmq.store.log.seek import record_store_time
from cometmq.store.progress import Progress
from cometmq.store.recovery.rebuild import rebuild
from cometmq.store.recovery.replay import Gap
from cometmq.store.settings import StoreSettings
from cometmq.store.tables import SUFFIX, is_table_name
from cometmq.store.whereabouts import check_has_log

FILLER_TOPIC: Final = "SALVAGED"
COPY_BYTES: Final = 4 * 1024 * 1024


class Salvaged(NamedTuple):
    """The result of a salvage.

    Attributes:
        messages: records copied.
        bytes: their size.
        lost: stretches of the log that could not be read.
        gaps: queue offsets whose messages are lost.
        tables: names of the tables copied.
        lost_tables: names of the tables that could not be read.
        left_out: what was not read, as CometMQ does not read its form.
    """

    messages: int
    bytes: int
    lost: list[LogDamage]
    gaps: list[Gap]
    tables: list[str]
    lost_tables: list[str]
    left_out: list[str]


def salvage(
    source: Path | str,
    target: Path | str,
    settings: StoreSettings | None = None,
    *,
    layer: FileLayer | None = None,
    progress: Progress | None = None,
) -> Salvaged:
    """Copy every readable record of the store in ``source`` into a new store in ``target``.

    Args:
        settings: of the broker; by default the sizes are inferred from the files.
        progress: called with the bytes of the old log that are done, and the total.

    Raises:
        StoreLocked: a process has the old store open.
        SettingsError: there is no store, its sizes cannot be inferred, ``target`` is not empty, or one of the
            two directories is within the other.
        OSError: a disk error.
    """
    source, target, layer = Path(source), Path(target), layer or Disk()
    check_is_store(layer, source)
    if layer.lock_holder(layout.lock_path(source)) is not None:
        raise StoreLocked(f"{source} is open in another process: stop it first")
    check_has_log(layer, source, settings or StoreSettings())
    settings = settings or infer_settings(layer, source)
    _check_apart(source, target, layer, spread_of(source, settings))
    if layer.exists(target) and set(layer.names(target)) - {LOST_AND_FOUND}:
        raise SettingsError(f"{target}: is not empty: give a new directory")
    copy = _Copy(source, target, settings, layer)
    copy.run(progress or (lambda _done, _total: None))
    left_out = list(foreign.contents(layer, source))
    tables, lost_tables = _copy_tables(source, target, layer, {found.path for found in left_out})
    rebuilt = rebuild(target, in_root(settings), layer=layer)
    result = copy.messages, copy.bytes, copy.lost, rebuilt.gaps, tables, lost_tables
    return Salvaged(*result, list(map(str, left_out)))


def _check_apart(source: Path, target: Path, layer: FileLayer, log: LogSpread) -> None:
    """Raise SettingsError if one directory is within the other, after following links.

    Directories of the store that are elsewhere, or links to elsewhere, count as part of it.
    """
    old, new = source.resolve(), target.resolve()
    parts = [source / name for name in layer.names(source) if layer.is_directory(source / name)]
    parts += log.directories
    if new == old:
        relation = "is"
    elif new.is_relative_to(old) or any(new.is_relative_to(part.resolve()) for part in parts):
        relation = "lies within"
    elif old.is_relative_to(new):
        relation = "holds"
    else:
        return
    raise SettingsError(
        f"{target}: {relation} the old store {source}, which is only read: give a new directory outside of it"
    )


class _Copy:
    """Copies the log, file by file."""

    def __init__(self, source: Path, target: Path, settings: StoreSettings, layer: FileLayer) -> None:
        self.messages = self.bytes = 0
        self.lost: list[LogDamage] = []
        self._spread = spread_of(source, settings)
        self._target = target
        self._file_size = settings.mapped_file_size_commit_log
        self._crc = settings.crc
        self._layer = layer
        self._last_time = 0

    def run(self, progress: Progress) -> None:
        """Copy all files, and fill missing ones between them."""
        layer = self._layer
        layer.make_directory(layout.commitlog_dir(self._target))
        paths = self._paths()
        starts = sorted(paths)
        kernels.load_for(len(starts) * self._file_size)
        for number, start in enumerate(starts):
            following = starts[number + 1] if number + 1 < len(starts) else None
            self._copy_file(paths[start], start, is_last=following is None)
            progress((number + 1) * self._file_size, len(starts) * self._file_size)
            for missing in range(start + self._file_size, following or 0, self._file_size):
                self._fill_file(missing)

    def _paths(self) -> dict[int, Path]:
        """Return the path of each file by its start; of several of one name, which look alike, the last."""
        paths = {}
        for path in self._spread.files(self._layer):
            try:
                start = layout.parse_offset_name(path.name)
            except FormatError:
                continue
            try:
                if start % self._file_size == 0 and self._layer.size(path):
                    paths[start] = path
            except NotRegularFile as error:
                self.lost.append(LogDamage(path, 0, self._file_size, error.strerror))
        return paths

    def _copy_file(self, path: Path, start: int, *, is_last: bool) -> None:
        old = self._layer.open(path, writable=False)
        try:
            new = self._layer.create(layout.commitlog_path(self._target, start), self._file_size)
            try:
                self._copy_records(old, new, start, is_last=is_last)
            finally:
                new.close()
            self._layer.sync(layout.commitlog_path(self._target, start))
        finally:
            old.close()

    def _copy_records(self, old: File, new: File, start: int, *, is_last: bool) -> None:
        view = old.view()
        buffer, end, position = np.frombuffer(view, np.uint8), min(old.size, self._file_size), 0
        while True:
            scan = kernels.loading.ops.scan(buffer, base_offset=start, start=position, end=end, crc=self._crc)
            if scan.count:
                self._last_time = int(scan.store_time[-1])
                self._copy_bytes(old, new, position, scan.stop_position)
                self.messages += scan.count
            position = scan.stop_position
            if scan.stop_reason is StopReason.BLANK:
                new.write(position, record.encode_blank(self._file_size - position))
                return
            found = self._next(view, position, start, min(old.data_end(position), end))
            if found is None:
                self._end_file(old, new, position, start, is_last=is_last)
                return
            self._add_lost(old, position, found - position, start)
            new.write(position, _filler(found - position, start + position, self._last_time))
            position = found

    def _next(self, view: memoryview, position: int, start: int, end: int) -> int | None:
        """Find the next valid record, but none of the file's previous use, which would be older."""
        found = find_next_record(view, position + 1, base_offset=start, end=end, crc=self._crc)
        while found is not None and (
            record_store_time(bytes(view[found : found + record.BODY_AT])) < self._last_time
            or not _holds_filler(found - position, self._crc)
        ):
            found = find_next_record(view, found + 1, base_offset=start, end=end, crc=self._crc)
        return found

    def _end_file(self, old: File, new: File, position: int, start: int, *, is_last: bool) -> None:
        behind = old.data_end(position) - position
        data = old.read(position, behind) if behind > 0 else b""
        is_used = bool(data.strip(b"\0"))
        if is_used or old.size < self._file_size or not is_last:
            self._add_lost(
                old, position, len(data.rstrip(b"\0")) if is_last else self._file_size - position, start
            )
        left = self._file_size - position
        if not is_last and left >= record.END_FILE_MIN_BLANK:
            new.write(position, record.encode_blank(left))

    def _fill_file(self, start: int) -> None:
        path = layout.commitlog_path(self._target, start)
        file = self._layer.create(path, self._file_size)
        file.write(0, record.encode_blank(self._file_size))
        file.close()
        self._layer.sync(path)
        missing = self._spread.writable[0] / layout.offset_name(start)
        if all(lost.path != missing for lost in self.lost):
            self.lost.append(LogDamage(missing, 0, self._file_size, "the file is missing"))

    def _copy_bytes(self, old: File, new: File, begin: int, end: int) -> None:
        for at in range(begin, end, COPY_BYTES):
            new.write(at, old.read(at, min(COPY_BYTES, end - at)))
        self.bytes += end - begin

    def _add_lost(self, old: File, position: int, size: int, start: int) -> None:
        if size <= 0 and old.size >= self._file_size:
            return
        size_max = min(old.size, self._file_size)
        stop = check(old.view(), position, size_max, base_offset=start, crc=self._crc)
        reason = getattr(stop, "detail", "") or NO_RECORD
        if position + size >= old.size or old.size < self._file_size:
            reason = f"{reason}; the file has {old.size} bytes" if old.size < self._file_size else reason
        self.lost.append(LogDamage(old.path, position, max(size, 0), reason))


def _holds_filler(size: int, crc: Crc) -> bool:
    return size > record.MIN_SIZE + property_crc.SIZE * (crc is Crc.RECORD)


def _filler(size: int, physical_offset: int, store_time: int) -> bytes:
    """Build a record of a size: a rolled back transaction, which is never read.

    It ends in the property CRC if there is room, so that it is sound for settings that require that.
    """
    is_sealed = _holds_filler(size, Crc.RECORD)
    properties = property_crc.reserve(b"") if is_sealed else b""
    room = size - record.MIN_SIZE - len(properties)
    topic = FILLER_TOPIC[:room]
    body = bytes(room - len(topic))
    host = bytes(8)
    filler = record.encode(
        record.Record(
            topic,
            body,
            properties,
            0,
            0,
            physical_offset,
            0,
            TRANSACTION_ROLLBACK,
            store_time,
            host,
            store_time,
            host,
        )
    )
    return property_crc.seal(filler) if is_sealed else filler


def _copy_tables(
    source: Path, target: Path, layer: FileLayer, left_out: Collection[Path]
) -> tuple[list[str], list[str]]:
    """Copy the tables that can be read; return their names, and the names of those that cannot."""
    copied, lost = [], []
    directory = layout.config_dir(source)
    names = {name.removesuffix(layout.BACKUP_SUFFIX) for name in files_in(layer, directory, is_table_name)}
    for name in sorted(name for name in names if name.endswith(SUFFIX)):
        path = directory / name
        if path in left_out:
            continue
        data = next(filter(_is_table, _contents(layer, path)), None)
        if data is None:
            lost.append(name)
            continue
        layer.make_directory(layout.config_dir(target))
        layer.save(layout.config_dir(target) / name, data)
        copied.append(name)
    return copied, lost


def _contents(layer: FileLayer, path: Path) -> Iterator[bytes]:
    for place in (path, layout.backup_path(path)):
        with suppress(FileNotFoundError, NotRegularFile):
            yield layer.load(place)


def _is_table(data: bytes) -> bool:
    try:
        return isinstance(fastjson.loads(data), dict)
    except FormatError:
        return False
