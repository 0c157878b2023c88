"""Recognise what Java brokers keep in a store in a form that CometMQ does not read; decide what happens.

One table, ``KINDS``, by what RocketMQ 5.5.0 writes. What users would miss is *refused*: nothing opens such a
store for writing. The rest is *left alone*: nobody reads or changes it, and opening the store names it in the
log. In either case commands that only read say what they leave out.

A folder that holds nothing is no foreign content: any broker of Java makes ``rocksdbstore/`` and
``compaction/``. Whoever knows that a refused folder does not matter moves it out of the store.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Final, NamedTuple

from cometmq.errors import FormatError, SettingsError
from cometmq.escaping import printable
from cometmq.format.java import fastjson
from cometmq.io.files import FileLayer
from cometmq.io.regular import NotRegularFile
from cometmq.logs import get_logger

_log = get_logger(__name__)

_ROCKSDB_LOG: Final = re.compile(r"[0-9]+\.log")
_ROCKSDB_TABLE: Final = re.compile(r"[0-9]+\.(sst|blob)")


def _is_rocksdb(layer: FileLayer, path: Path) -> bool:
    """Check whether a folder is that of a RocksDB store."""
    return layer.exists(path / "CURRENT")


def _has_stored(layer: FileLayer, path: Path) -> bool:
    """Check whether a folder is that of a RocksDB store in which something was stored."""
    return _is_rocksdb(layer, path) and any(
        _ROCKSDB_TABLE.fullmatch(name) or (_ROCKSDB_LOG.fullmatch(name) and file_length(layer, path / name))
        for name in layer.names(path)
    )


def _has_files(layer: FileLayer, path: Path) -> bool:
    """Check whether a folder, or one in it, has a file that is not empty."""
    return any(
        _has_files(layer, path / name) if layer.is_directory(path / name) else file_length(layer, path / name)
        for name in layer.names(path)
    )


def file_length(layer: FileLayer, path: Path) -> int:
    """Return the length of a file; 0 if it is no regular file, which holds nothing. Raises OSError."""
    try:
        return layer.size(path)
    except NotRegularFile:
        return 0


def _has_members(layer: FileLayer, path: Path) -> bool:
    """Check whether a file is a JSON object with a member that is not empty."""
    try:
        value = fastjson.loads(layer.load(path))
    except FormatError:
        return True
    except NotRegularFile:
        return False
    return isinstance(value, dict) and any(isinstance(member, dict) and member for member in value.values())


class ForeignKind(NamedTuple):
    """A kind of foreign content.

    Attributes:
        place: its path in the store; the name may be a pattern.
        is_there: checks whether what is at that place is of this kind, and holds anything.
        what: what it holds.
        remedy: how to go on without it; empty if it is left alone.
    """

    place: str
    is_there: Callable[[FileLayer, Path], object]
    what: str
    remedy: str = ""


_QUEUES: Final = (
    "the queues in RocksDB (storeType, rocksdbCQDoubleWriteEnable)",
    "move it out of the store, then build file queues from the CommitLog: cometmq store rebuild",
)
_TABLES: Final = (
    ("topics", "topics"),
    ("subscriptionGroups", "groups"),
    ("consumerOffsets", "offsets of groups"),
    ("metadata", "topics, groups and offsets"),
)
_EXPORT: Final = (
    "have the Java broker export it into config/*.json (mqadmin rocksDBConfigToJson), then move it out of "
    "the store"
)
_USERS: Final = "users or their permissions in RocksDB (create yours with cometmq user and cometmq acl)"
ROCKSDB_QUEUES: Final = (
    ForeignKind("consumequeue", _is_rocksdb, *_QUEUES),
    ForeignKind("consumequeue_rocksdb", _has_stored, *_QUEUES),
    ForeignKind("consumequeue_r", _has_stored, *_QUEUES),
)
DLEDGER: Final = ForeignKind(
    "dledger-*",
    lambda layer, path: _has_files(layer, path / "data"),
    "the log of a Raft group (DLedger), whose records have another form",
    "start a broker on another directory, and let a consumer of the group's topics send their messages to it",
)
BATCH_QUEUES: Final = ForeignKind(
    "batchconsumequeue",
    _has_files,
    "batch queues, with entries of 46 bytes (topics with queue.type=BatchCQ)",
    "have a Java broker deliver what is in them, delete their topics there, then move it out of the store",
)
KINDS: Final = (
    *ROCKSDB_QUEUES,
    *(ForeignKind(f"config/{name}", _has_stored, f"{what} in RocksDB", _EXPORT) for name, what in _TABLES),
    ForeignKind(
        "config/rdb",
        _has_stored,
        "topics, groups and offsets in RocksDB (configManagerVersion=v2)",
        "note topics and groups (mqadmin exportMetadata) and offsets (consumerProgress), move it out of the "
        "store, and create them anew",
    ),
    ForeignKind(
        "kvStore",
        _has_stored,
        "messages in flight by pops in RocksDB (popConsumerKVServiceEnable)",
        "have the Java broker put them into the CommitLog (mqadmin exportPopRecord), then move it out of the "
        "store",
    ),
    ForeignKind(
        "rocksdbstore",
        _has_stored,
        "timed messages, open transactions or the index in RocksDB (timerRocksDBEnable, transRocksDBEnable, "
        "indexRocksDBEnable)",
        "have a Java broker run until none of these messages waits, then move it out of the store, and build "
        "index files from the CommitLog: cometmq store rebuild",
    ),
    ForeignKind(
        "compaction/compactionLog",
        _has_files,
        "compacted topics (cleanup.policy=COMPACTION), with messages that the CommitLog may have no longer",
        "move it out of the store if the CommitLog has all that is needed",
    ),
    BATCH_QUEUES,
    DLEDGER,
    ForeignKind(
        "config/tieredStoreMetadata.json",
        _has_members,
        "the list of what is in tiered storage (messageStorePlugIn)",
        "move it out of the store if the CommitLog has all that is needed",
    ),
    ForeignKind("config/users", _has_stored, _USERS),
    ForeignKind("config/acls", _has_stored, _USERS),
)
"""All kinds; the first that are there are named first."""


class Foreign(NamedTuple):
    """Foreign content of a store."""

    path: Path
    kind: ForeignKind

    def __str__(self) -> str:
        return f"{self.path}: holds {self.kind.what}, which CometMQ does not read"


def contents(layer: FileLayer, root: Path, kinds: Iterable[ForeignKind] = KINDS) -> Iterator[Foreign]:
    """Yield the foreign contents of a store, in the order of ``kinds``. Raises OSError."""
    names: dict[PurePosixPath, list[str]] = {}
    for kind in kinds:
        place = PurePosixPath(kind.place)
        if place.parent not in names:
            names[place.parent] = layer.names(root / place.parent)
        for name in names[place.parent]:
            path = root / place.parent / name
            if fnmatchcase(name, place.name) and kind.is_there(layer, path):
                yield Foreign(path, kind)


def check(layer: FileLayer, root: Path) -> None:
    """Check that a store has no foreign contents that users would miss; name the others in the log.

    Raises SettingsError, with a line for each: what it is, and the remedy; nothing is written.
    """
    refused = []
    for found in contents(layer, root):
        if found.kind.remedy:
            refused.append(printable(f"{found}: {found.kind.remedy}. Nothing was changed"))
        else:
            _log.info("%s: it is left alone", found)
    if refused:
        raise SettingsError("\n".join(refused))


def check_readable(layer: FileLayer, root: Path) -> None:
    """Check that a store's log, to which queues and index point, can be read. Raises SettingsError."""
    for found in contents(layer, root, (DLEDGER,)):
        raise SettingsError(f"{found}: {found.kind.remedy}")
