"""Every file name and path of a store directory, made and parsed here and nowhere else.

::

    root/
    ├── commitlog/<20 digits>                       records
    ├── consumequeue/<topic>/<queue id>/<20 digits> 20-byte entries
    ├── index/<yyyyMMddHHmmssSSS>                   key hash tables, by local time of their making
    ├── timerwheel, timerlog/<20 digits>            messages for an arbitrary later time
    ├── checkpoint                                  what is on the disk
    ├── abort                                       there while the store is open: pid as text
    ├── lock                                        locked while the store is open
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
"""For ``%RETRY%`` and ``%DLQ%`` topics, whose names hold a group's."""
RETRY_PREFIX: Final = "%RETRY%"
DLQ_PREFIX: Final = "%DLQ%"
REPLY_SUFFIX: Final = "_REPLY_TOPIC"
"""Behind a cluster's name it is the topic that replies to requests go to."""
GROUP_LENGTH_MAX: Final = SYSTEM_TOPIC_LENGTH_MAX - len(RETRY_PREFIX)
"""So that a group can have its retry topic. RocketMQ's brokers take 120, its older clients 255."""

FILE_NAME_SIZE_MAX: Final = 255
"""What file systems take, in bytes."""
BACKUP_SUFFIX: Final = ".bak"

_OFFSET_MAX: Final = 2**63 - 1
_NAME: Final = re.compile(r"[%|a-zA-Z0-9_-]+")
_OFFSET_NAME: Final = re.compile(r"[0-9]{20}")
_INDEX_NAME: Final = re.compile(r"[0-9]{17}")
_QUEUE_ID_NAME: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def valid_topic(topic: str) -> str:
    """Return ``topic``. Raises IllegalName if it is no legal topic name, IllegalType if it is no str."""
    if not isinstance(topic, str):
        check(TEXT, topic=topic)
    return _legal_topic(topic)


@lru_cache(maxsize=1024)  # a producer asks about the same ones again and again
def _legal_topic(topic: str) -> str:
    derived = topic.startswith((RETRY_PREFIX, DLQ_PREFIX))
    return _valid_name("topic", topic, SYSTEM_TOPIC_LENGTH_MAX if derived else TOPIC_LENGTH_MAX)


def valid_group(group: str) -> str:
    """Return ``group``. Raises IllegalName if it is no legal group name, IllegalType if it is no str."""
    check(TEXT, group=group)
    return _valid_name("group", group, GROUP_LENGTH_MAX)


def offset_name(offset: int) -> str:
    """Name the file that begins at byte ``offset`` of its log."""
    if not 0 <= offset <= _OFFSET_MAX:
        raise FormatError(f"file offset {offset}: must be 0 to {_OFFSET_MAX}")
    return f"{offset:020d}"


def is_offset_name(name: str) -> bool:
    """Tell whether a file name stands for an offset."""
    return _OFFSET_NAME.fullmatch(name) is not None and int(name) <= _OFFSET_MAX


def parse_offset_name(name: str) -> int:
    """Give the offset that a file name stands for. Raises FormatError if it is no such name."""
    if not is_offset_name(name):
        raise FormatError(f"file name {name!r}: must be an offset in 20 decimal digits")
    return int(name)


def index_name(time_ms: int, tz: tzinfo | None = None) -> str:
    """Name the index file made at ``time_ms`` since the epoch, in ``tz`` or else local time."""
    second = datetime.fromtimestamp(time_ms // 1000, tz)
    return f"{second:%Y%m%d%H%M%S}{time_ms % 1000:03d}"


def parse_index_name(name: str, tz: tzinfo | None = None) -> int:
    """Give the time, ms since the epoch, of an index file's name. Raises FormatError if it is none."""
    error = FormatError(f"index file name {name!r}: must be a time as yyyyMMddHHmmssSSS")
    if not _INDEX_NAME.fullmatch(name):
        raise error
    try:
        second = datetime.strptime(name[:14], "%Y%m%d%H%M%S").replace(tzinfo=tz)
        return int(second.timestamp()) * 1000 + int(name[14:])
    except (ValueError, OverflowError):
        raise error from None


def parse_queue_id(name: str) -> int:
    """Give the queue id that a directory is named by. Raises FormatError if it is no such name."""
    if not _QUEUE_ID_NAME.fullmatch(name):
        raise FormatError(f"queue directory {name!r}: must be a queue id in decimal")
    return int(name)


def commitlog_dir(root: Path) -> Path:
    """Where the CommitLog's files are."""
    return root / "commitlog"


def commitlog_path(root: Path, offset: int) -> Path:
    """Where the CommitLog file that begins at ``offset`` is."""
    return commitlog_dir(root) / offset_name(offset)


def consume_queues_dir(root: Path) -> Path:
    """Where the topics' directories of ConsumeQueues are."""
    return root / "consumequeue"


@lru_cache  # asked for each of a topic's queues in turn
def topic_dir(root: Path, topic: str) -> Path:
    """Where a topic's queues are. Raises IllegalName if the topic would lead out of the store."""
    return _inside(consume_queues_dir(root), topic)


def consume_queue_dir(root: Path, topic: str, queue_id: int) -> Path:
    """Where one ConsumeQueue's files are. Raises IllegalName if topic or queue id cannot be file names."""
    if queue_id < 0:
        raise IllegalName(f"queue id {queue_id} of topic {topic!r}: must not be negative")
    return topic_dir(root, topic) / str(queue_id)


def consume_queue_path(root: Path, topic: str, queue_id: int, offset: int) -> Path:
    """Where the ConsumeQueue file that begins at byte ``offset`` is."""
    return consume_queue_dir(root, topic, queue_id) / offset_name(offset)


def consume_queue_exts_dir(root: Path) -> Path:
    """Where the topics' directories of ConsumeQueueExts are."""
    return root / "consumequeue_ext"


def topic_ext_dir(root: Path, topic: str) -> Path:
    """Where the extensions of a topic's queues are. Raises IllegalName like ``topic_dir``."""
    return _inside(consume_queue_exts_dir(root), topic)


def consume_queue_ext_dir(root: Path, topic: str, queue_id: int) -> Path:
    """Where one ConsumeQueueExt's files are. Raises IllegalName like ``consume_queue_dir``."""
    return topic_ext_dir(root, topic) / consume_queue_dir(root, topic, queue_id).name


def index_dir(root: Path) -> Path:
    """Where the index files are."""
    return root / "index"


def index_path(root: Path, time_ms: int, tz: tzinfo | None = None) -> Path:
    """Where the index file made at ``time_ms`` is."""
    return index_dir(root) / index_name(time_ms, tz)


def timer_wheel_path(root: Path) -> Path:
    """Where the timer wheel's slots are."""
    return root / "timerwheel"


def timer_log_dir(root: Path) -> Path:
    """Where the timer log's files are."""
    return root / "timerlog"


def checkpoint_path(root: Path) -> Path:
    """Where the checkpoint is."""
    return root / "checkpoint"


def abort_path(root: Path) -> Path:
    """Where the file is that tells an unclean stop."""
    return root / "abort"


def lock_path(root: Path) -> Path:
    """Where the file is that one process locks."""
    return root / "lock"


def config_dir(root: Path) -> Path:
    """Where the broker's tables are."""
    return root / "config"


def config_path(root: Path, name: str) -> Path:
    """Where the JSON table ``name`` (``topics``, ``consumerOffset``, …) is."""
    return _inside(config_dir(root), f"{name}.json")


def timer_checkpoint_path(root: Path) -> Path:
    """Where the timer's checkpoint is."""
    return config_dir(root) / "timercheck"


def backup_path(path: Path) -> Path:
    """Where the version before the last of a table is."""
    return path.with_name(path.name + BACKUP_SUFFIX)


def _valid_name(kind: str, name: str, length_max: int) -> str:
    if not name:
        raise IllegalName(f"{kind} is empty: give it 1 to {length_max} characters")
    if len(name) > length_max:
        raise IllegalName(
            f"{kind} {name[:40]!r}… has {len(name)} characters: shorten it to at most {length_max}"
        )
    if not _NAME.fullmatch(name):
        raise IllegalName(f"{kind} {name!r}: use only the characters a-z A-Z 0-9 _ - % |")
    return name


def _inside(directory: Path, name: str) -> Path:
    """Join one name to a directory, and be sure that it stays a child of it."""
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise IllegalName(f"{name!r} cannot be a file name under {directory.name}/: use a plain name")
    if len(name.encode("utf-8", "surrogateescape")) > FILE_NAME_SIZE_MAX:
        raise IllegalName(f"{name[:40]!r}… cannot be a file name: shorten it to {FILE_NAME_SIZE_MAX} bytes")
    return directory / name
