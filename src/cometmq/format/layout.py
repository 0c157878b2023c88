"""Build and parse all file names and paths of a store directory. No other module knows one.

::

    root/
    ├── commitlog/<20 digits>                       records
    ├── consumequeue/<topic>/<queue id>/<20 digits> 20-byte entries
    ├── consumequeue/%LMQ%<name>/0/<20 digits>      entries of a light queue
    ├── consumequeue/.deleted/<name>                directories of queues that are to be removed
    ├── index/<yyyyMMddHHmmssSSS>                   key hash tables, by the local time of their creation
    ├── timerwheel, timerlog/<20 digits>            messages with a delivery time of their own
    ├── checkpoint                                  store times up to which files are on the disk
    ├── abort                                       exists while the store is open: pid as text
    ├── lock                                        locked while the store is open
    ├── epochFileCheckpoint, ….bak                  which master wrote which part of the log
    ├── brokerIdentity, brokerIdentity-temp         the broker's id under a controller
    └── config/<name>.json, config/<name>.json.bak  topics, groups, consumer offsets, …

The 20 digits are the offset of the file's first byte. Topics are directory names as they are.
A topic comes from the network: no path leaves its root whatever the name (CVE-2019-17572).

Source: RocketMQ ``store/config/StorePathConfigHelper.java``, ``common/UtilAll.java``,
``common/topic/TopicValidator.java``.
"""

import re
from datetime import datetime, tzinfo
from functools import lru_cache
from pathlib import Path
from typing import Final

from cometmq.arguments import TEXT, check
from cometmq.errors import FormatError, IllegalName

TOPIC_LENGTH_MAX: Final = 127
SYSTEM_TOPIC_LENGTH_MAX: Final = 255
"""Longest name of ``%RETRY%`` and ``%DLQ%`` topics, which contain a group's name."""
RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
LIGHT_PREFIX: Final = "%LMQ%"
REPLY_SUFFIX: Final = "_REPLY_TOPIC"
"""Appended to a cluster's name: the topic of replies to requests."""
GROUP_LENGTH_MAX: Final = SYSTEM_TOPIC_LENGTH_MAX - len(RETRY_PREFIX)
"""Leaves room for the retry topic's prefix. RocketMQ's brokers allow 120, its old clients 255."""

QUEUE_COUNT_MAX: Final = 65_535
"""Most queues of a topic in one store, to read and to write each."""
ROUTE_QUEUES_MAX: Final = 131_072
"""Most queues of a topic in all stores of a cluster: a client holds an object for each."""
FILE_NAME_SIZE_MAX: Final = 255
"""Longest file name that file systems allow, in bytes."""
BACKUP_SUFFIX: Final = ".bak"
DELETED: Final = ".deleted"
"""Name of the directory beside those of topics that holds directories of deleted queues."""

_OFFSET_MAX: Final = 2**63 - 1
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_POP_RETRY_NAME: Final = re.compile(rf"{RETRY_PREFIX}[%|a-zA-Z0-9_-]+\+[%|a-zA-Z0-9_-]+")
"""The newer form of the retry topics of pops, with a plus between group and topic."""
_OFFSET_NAME: Final = re.compile(r"[0-9]{20}")
_INDEX_NAME: Final = re.compile(r"[0-9]{17}")
_QUEUE_ID_NAME: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def valid_topic(topic: str) -> str:
    """Return ``topic``. Raises IllegalName if it is not a legal name, IllegalType if it is not a str."""
    if not isinstance(topic, str):
        check(TEXT, topic=topic)
    return _legal_topic(topic)


@lru_cache(maxsize=1024)  # a producer checks the same topics again and again
def _legal_topic(topic: str) -> str:
    derived = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    return _valid_name("topic", topic, SYSTEM_TOPIC_LENGTH_MAX if derived else TOPIC_LENGTH_MAX)


def is_light(name: str) -> bool:
    """Check whether a name is that of a light queue: see ``dispatch``. More than topics' names are."""
    size = len(name.encode("utf-8", "surrogateescape"))
    return name.startswith(LIGHT_PREFIX) and size <= FILE_NAME_SIZE_MAX and not {"/", "\0"} & set(name)


def queues_name(name: str) -> str:
    """Return the name of a directory of queues: a topic, or a light queue. Raises IllegalName."""
    return name if is_light(name) else valid_topic(name)


def valid_group(group: str) -> str:
    """Return ``group``. Raises IllegalName if it is not a legal name, IllegalType if it is not a str."""
    check(TEXT, group=group)
    return _valid_name("group", group, GROUP_LENGTH_MAX)


def offset_name(offset: int) -> str:
    """Return the name of the file that begins at byte ``offset`` of its log."""
    if not 0 <= offset <= _OFFSET_MAX:
        raise FormatError(f"file offset {offset}: must be 0 to {_OFFSET_MAX}")
    return f"{offset:020d}"


def is_offset_name(name: str) -> bool:
    """Check whether a file name is an offset."""
    return _OFFSET_NAME.fullmatch(name) is not None and int(name) <= _OFFSET_MAX


def parse_offset_name(name: str) -> int:
    """Return the offset in a file name. Raises FormatError if the name is not an offset."""
    if not is_offset_name(name):
        raise FormatError(f"file name {name!r}: must be an offset in 20 decimal digits")
    return int(name)


def index_name(time_ms: int, tz: tzinfo | None = None) -> str:
    """Return the name of the index file created at ``time_ms`` since the epoch, by default in local time."""
    second = datetime.fromtimestamp(time_ms // 1000, tz)
    return f"{second:%Y%m%d%H%M%S}{time_ms % 1000:03d}"


def is_index_name(name: str) -> bool:
    """Check whether a file name has the form of an index file's."""
    return _INDEX_NAME.fullmatch(name) is not None


def parse_index_name(name: str, tz: tzinfo | None = None) -> int:
    """Return the time in an index file's name, ms since the epoch. Raises FormatError if it is not a time."""
    error = FormatError(f"index file name {name!r}: must be a time as yyyyMMddHHmmssSSS")
    if not is_index_name(name):
        raise error
    try:
        second = datetime.strptime(name[:14], "%Y%m%d%H%M%S").replace(tzinfo=tz)
        return int(second.timestamp()) * 1000 + int(name[14:])
    except (ValueError, OverflowError):
        raise error from None


def is_queue_name(name: str) -> bool:
    """Return whether a directory's name is a queue id."""
    return _QUEUE_ID_NAME.fullmatch(name) is not None


def parse_queue_id(name: str) -> int:
    """Return the queue id in a directory's name. Raises FormatError if the name is not a queue id."""
    if not is_queue_name(name):
        raise FormatError(f"queue directory {name!r}: must be a queue id in decimal")
    return int(name)


def commitlog_dir(root: Path) -> Path:
    """Return the directory of the CommitLog's files."""
    return root / "commitlog"


def commitlog_path(root: Path, offset: int) -> Path:
    """Return the path of the CommitLog file that begins at ``offset``."""
    return commitlog_dir(root) / offset_name(offset)


def consume_queues_dir(root: Path) -> Path:
    """Return the directory that holds a directory of ConsumeQueues for each topic."""
    return root / "consumequeue"


@lru_cache  # called for each of a topic's queues in turn
def topic_dir(root: Path, topic: str) -> Path:
    """Return the directory of a topic's queues. Raises IllegalName if it would lie outside the store."""
    return _inside(consume_queues_dir(root), topic)


def consume_queue_dir(root: Path, topic: str, queue_id: int) -> Path:
    """Return a ConsumeQueue's directory. Raises IllegalName if topic or queue id cannot be file names."""
    if queue_id < 0:
        raise IllegalName(f"queue id {queue_id} of topic {topic!r}: must not be negative")
    return topic_dir(root, topic) / str(queue_id)


def consume_queue_path(root: Path, topic: str, queue_id: int, offset: int) -> Path:
    """Return the path of the ConsumeQueue file that begins at byte ``offset``."""
    return consume_queue_dir(root, topic, queue_id) / offset_name(offset)


def consume_queue_exts_dir(root: Path) -> Path:
    """Return the directory that holds a directory of ConsumeQueueExts for each topic."""
    return root / "consumequeue_ext"


def topic_ext_dir(root: Path, topic: str) -> Path:
    """Return the directory of the extensions of a topic's queues. Raises IllegalName like ``topic_dir``."""
    return _inside(consume_queue_exts_dir(root), topic)


def consume_queue_ext_dir(root: Path, topic: str, queue_id: int) -> Path:
    """Return the directory of a ConsumeQueueExt. Raises IllegalName like ``consume_queue_dir``."""
    return topic_ext_dir(root, topic) / consume_queue_dir(root, topic, queue_id).name


def deleted_dir(queues: Path) -> Path:
    """Where directories wait to be removed that lay in a folder of queues, in the same file system.

    No topic is named like it. A Java broker takes it for a topic without queues, as long as what lies there
    is not named by a number.
    """
    return queues / DELETED


def index_dir(root: Path) -> Path:
    """Return the directory of the index files."""
    return root / "index"


def index_path(root: Path, time_ms: int, tz: tzinfo | None = None) -> Path:
    """Return the path of the index file created at ``time_ms``, ms since the epoch."""
    return index_dir(root) / index_name(time_ms, tz)


def timer_wheel_path(root: Path) -> Path:
    """Return the path of the timer wheel's file."""
    return root / "timerwheel"


def timer_log_dir(root: Path) -> Path:
    """Return the directory of the timer log's files."""
    return root / "timerlog"


def checkpoint_path(root: Path) -> Path:
    """Return the path of the checkpoint."""
    return root / "checkpoint"


def abort_path(root: Path) -> Path:
    """Return the path of the abort file, whose presence at a start means an unclean stop."""
    return root / "abort"


def lock_path(root: Path) -> Path:
    """Return the path of the file that a process locks while the store is open."""
    return root / "lock"


def epoch_file_path(root: Path) -> Path:
    """Return the path of the file with the epochs of a log that is replicated under a controller."""
    return root / "epochFileCheckpoint"


def broker_identity_path(root: Path) -> Path:
    """Return the path of the file with the id that a controller has assigned to the broker."""
    return root / "brokerIdentity"


def broker_application_path(root: Path) -> Path:
    """Return the path of the file with the id that the broker applies for."""
    return root / "brokerIdentity-temp"


def truncated_dir(set_aside: Path, offset: int, time_ms: int) -> Path:
    """Return the directory for what is cut off a CommitLog at ``offset``: a store with nothing else."""
    return set_aside / f"truncated-{offset_name(offset)}-{index_name(time_ms)}"


def config_dir(root: Path) -> Path:
    """Return the directory of the broker's tables."""
    return root / "config"


def config_path(root: Path, name: str) -> Path:
    """Return the path of the JSON table ``name`` (``topics``, ``consumerOffset``, …)."""
    return _inside(config_dir(root), f"{name}.json")


def timer_checkpoint_path(root: Path) -> Path:
    """Return the path of the timer's checkpoint."""
    return config_dir(root) / "timercheck"


def backup_path(path: Path) -> Path:
    """Return the path of a table's backup, which holds the version before the last one."""
    return path.with_name(path.name + BACKUP_SUFFIX)


def _valid_name(kind: str, name: str, length_max: int) -> str:
    if not name:
        raise IllegalName(f"{kind} is empty: give it 1 to {length_max} characters")
    if len(name) > length_max:
        raise IllegalName(
            f"{kind} {name[:40]!r}… has {len(name)} characters: shorten it to at most {length_max}"
        )
    if not _NAME.fullmatch(name) and not (kind == "topic" and _POP_RETRY_NAME.fullmatch(name)):
        raise IllegalName(f"{kind} {name!r}: use only the characters a-z A-Z 0-9 _ - % |")
    return name


def _inside(directory: Path, name: str) -> Path:
    """Return the path of ``name`` in ``directory``. Raises IllegalName if it would not be a child of it."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise IllegalName(f"{name!r} cannot be a file name under {directory.name}/: use a plain name")
    if len(name.encode("utf-8", "surrogateescape")) > FILE_NAME_SIZE_MAX:
        raise IllegalName(f"{name[:40]!r}… cannot be a file name: shorten it to {FILE_NAME_SIZE_MAX} bytes")
    return directory / name
