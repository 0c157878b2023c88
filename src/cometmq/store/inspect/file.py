"""Open a store file to show it: determine its kind, and return its rows.

The kind is known from the name and the place in the store, or, for a copy elsewhere, from the content.
"""

from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

from cometmq.errors import FormatError, SettingsError
from cometmq.format import layout, record
from cometmq.format.checkpoint import SIZE as CHECKPOINT_SIZE
from cometmq.format.checksum import Crc
from cometmq.format.index import file_size
from cometmq.format.java import fastjson
from cometmq.format.queue_entry import SIZE as QUEUE_ENTRY_SIZE
from cometmq.io.files import File, FileLayer
from cometmq.store.files.sizes import IndexSizes, infer_index_sizes
from cometmq.store.files.spread import spread_of
from cometmq.store.index.index_view import IndexView
from cometmq.store.inspect.entries import checkpoint_rows, ext_rows, index_rows, queue_rows
from cometmq.store.inspect.records import record_position, record_rows
from cometmq.store.inspect.row import DAMAGED, Field, InspectRow
from cometmq.store.settings import StoreSettings


class Kind(Enum):
    """The kind of a store file."""

    COMMIT_LOG = "CommitLog file"
    CONSUME_QUEUE = "ConsumeQueue file"
    CONSUME_QUEUE_EXT = "ConsumeQueueExt file"
    INDEX = "index file"
    CHECKPOINT = "checkpoint"
    TABLE = "table"
    ABORT = "abort file"
    LOCK = "lock file"


class FileView:
    """A store file opened read-only; a context manager, which closes it.

    Attributes:
        base_offset: offset of its first byte in its chain of files (CommitLog, ConsumeQueue), else 0.
    """

    def __init__(
        self, file: File, kind: Kind, base_offset: int, index_sizes: IndexSizes | None, crc: Crc
    ) -> None:
        self.kind = kind
        self.base_offset = base_offset
        self._file = file
        self._index_sizes = index_sizes
        self._crc = crc

    def __enter__(self) -> Self:
        """Return the file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self._file.close()

    @property
    def size(self) -> int:
        """The file's length in bytes."""
        return self._file.size

    def rows(self, at: int | None = None) -> Iterator[InspectRow]:
        """Return the file's rows.

        Args:
            at: where to begin: a CommitLog offset, a queue offset, a unit's offset or the number of an index
                entry; if no record begins at a CommitLog offset, the next one is the first row.

        Raises:
            SettingsError: the file has no such place.
            FormatError: the file is too short for its kind.
        """
        view = self._file.view()
        match self.kind:
            case Kind.COMMIT_LOG:
                data_end = self._file.data_end(0)
                position = 0
                if at is not None:
                    position = self._position(at - self.base_offset, at, "CommitLog offsets", 1)
                    position = record_position(view, self.base_offset, position, data_end, self._crc)
                return record_rows(view, self.base_offset, position, data_end, self._crc)
            case Kind.CONSUME_QUEUE:
                first = self.base_offset // QUEUE_ENTRY_SIZE
                position = 0
                if at is not None:
                    position = self._position(
                        (at - first) * QUEUE_ENTRY_SIZE, at, "queue offsets", QUEUE_ENTRY_SIZE
                    )
                return queue_rows(view, self.base_offset, position)
            case Kind.CONSUME_QUEUE_EXT:
                position = 0 if at is None else self._position(at - self.base_offset, at, "offsets", 1)
                return ext_rows(view, self.base_offset, position)
            case Kind.INDEX:
                return index_rows(self._index(), at)
            case Kind.CHECKPOINT:
                return checkpoint_rows(view)
            case Kind.TABLE:
                return _table_rows(bytes(view))
            case _:
                return iter([InspectRow(self.kind.value, 0, self.size, [_text(bytes(view))])])

    def _position(self, position: int, at: int, unit: str, unit_size: int) -> int:
        if not 0 <= position < self.size:
            first = self.base_offset // unit_size
            last = first + max(self.size // unit_size - 1, 0)
            raise SettingsError(f"--at {at}: {self._file.path} holds {unit} {first} to {last}")
        return position

    def _index(self) -> IndexView:
        sizes = self._index_sizes or infer_index_sizes(self._file)
        path = self._file.path
        if sizes is None:
            raise SettingsError(
                f"{path}: its length of {self.size} bytes does not show how many slots and entries it has: "
                "give the broker's settings file, or one with maxHashSlotNum and maxIndexNum, with --config"
            )
        if file_size(*sizes) != self.size:
            raise SettingsError(
                f"{path}: has {self.size} bytes, not the {file_size(*sizes)} of {sizes.slot_count} slots and "
                f"{sizes.entry_count} entries: give the settings that it was written with"
            )
        return IndexView(path, np.frombuffer(self._file.view(), np.uint8), *sizes)


class _Identity(NamedTuple):
    kind: Kind
    base_offset: int = 0


def open_file(layer: FileLayer, path: Path, settings: StoreSettings | None = None) -> FileView:
    """Open a store file to be shown.

    Args:
        settings: of the broker that wrote it; by default the sizes of an index file are inferred from it.

    Raises:
        SettingsError: it is no store file, or one that cannot be shown.
        OSError: it cannot be read.
    """
    file = layer.open(path, writable=False)
    known = settings or StoreSettings()
    identity = None if _is_timers(path) else _by_name(path, known) or _by_content(file)
    if identity is None:
        file.close()
        raise SettingsError(
            f"{path}: is no store file that can be shown: give a CommitLog, ConsumeQueue or index file, "
            "the checkpoint, a table of config/, or the store's directory"
        )
    sizes = None if settings is None else IndexSizes(settings.max_hash_slot_num, settings.max_index_num)
    crc = Crc.BODY if settings is None else settings.crc
    return FileView(file, identity.kind, identity.base_offset, sizes, crc)


def _is_timers(path: Path) -> bool:
    """Check whether a file belongs to the timer, whose files cannot be shown."""
    return path.name in ("timercheck", "timerwheel") or path.absolute().parent.name == "timerlog"


def _by_name(path: Path, settings: StoreSettings) -> _Identity | None:
    path = path.absolute()
    if path.name in ("checkpoint", "abort", "lock"):
        return _Identity(Kind(path.name if path.name == "checkpoint" else f"{path.name} file"))
    if path.name.removesuffix(layout.BACKUP_SUFFIX).endswith(".json"):
        return _Identity(Kind.TABLE)
    try:
        if path.parent == layout.index_dir(path.parents[1]):
            layout.parse_index_name(path.name)
            return _Identity(Kind.INDEX)
        offset = layout.parse_offset_name(path.name)
    except FormatError:
        return None
    if path.parent in (
        layout.commitlog_dir(path.parents[1]),
        *spread_of(path.parents[1], settings).directories,
    ):
        return _Identity(Kind.COMMIT_LOG, offset)
    if len(path.parents) > 3 and path.parents[2] == layout.consume_queues_dir(path.parents[3]):
        return _Identity(Kind.CONSUME_QUEUE, offset)
    if len(path.parents) > 3 and path.parents[2] == layout.consume_queue_exts_dir(path.parents[3]):
        return _Identity(Kind.CONSUME_QUEUE_EXT, offset)
    return None


def _by_content(file: File) -> _Identity | None:
    head = file.read(0, record.HEAD_MAX_SIZE)
    if head[record.MAGIC_AT : record.START_SIZE] in record.MAGICS:
        return _Identity(
            Kind.COMMIT_LOG, int.from_bytes(head[record.PHYSICAL_OFFSET_AT : record.SYS_FLAG_AT], "big")
        )
    if file.size == CHECKPOINT_SIZE:
        return _Identity(Kind.CHECKPOINT)
    if head[:1] == b"{":
        return _Identity(Kind.TABLE)
    if file.size and infer_index_sizes(file) is not None:
        return _Identity(Kind.INDEX)
    if file.size and file.size % QUEUE_ENTRY_SIZE == 0:
        return _Identity(Kind.CONSUME_QUEUE)
    return None


def _table_rows(data: bytes) -> Iterator[InspectRow]:
    try:
        value = fastjson.loads(data)
    except FormatError as error:
        yield InspectRow(DAMAGED, 0, len(data), [_text(data)], str(error))
        return
    yield InspectRow("table", 0, len(data), [Field(0, "value", value, fastjson.dumps(value, pretty=True))])


def _text(data: bytes) -> Field:
    return Field(0, "text", data.decode(errors="replace"))
