"""What a record adds to the ConsumeQueue and the Index: the plain definition.

====================  =====================  ===========
transaction type      gets a queue entry     gets indexed
====================  =====================  ===========
NOT, COMMIT           yes                    yes
PREPARED              no                     yes
ROLLBACK              no                     no
====================  =====================  ===========

The index holds the record under UNIQ_KEY, then under each key of KEYS, then under ``T#`` and TAGS, in
this order. RocketMQ adds the last one since 5.4; older brokers ignore it.

The queue entry's tags code is the hash of TAGS, or 0 without TAGS. In SCHEDULE_TOPIC_XXXX a DELAY above 0
replaces it by the time at which the message is due, so that the schedule need not read the records of
messages that still wait. That time is computed once, when the message is stored: see ``delay_level``.

Light queues (LMQ): one record has an entry in its topic's queue, and an equal one in each light queue that
it names. A client names them in INNER_MULTI_DISPATCH, separated by commas; a Java broker with
``enableLmq`` and ``enableMultiDispatch`` gives each the next queue offset and adds these as
INNER_MULTI_QUEUE_OFFSET, in the same order. Without the second property a record is in no light queue. By
RocketMQ's rules empty texts at the end of a list do not count; lists of different lengths give no entries,
nor do records of a broker's own topics, names with a slash, and other names than those of light queues.
Beyond that, a name that comes again gives no second entry, and a pair whose offset is no number gives
none: a Java broker stops at it for ever.

Half messages of RocketMQ 4.3 and later have the transaction type NOT and a topic of their own.
Source: RocketMQ: CommitLog.java (checkMessageAndReturnSize), CommitLogDispatcherBuildConsumeQueue
in DefaultMessageStore.java, IndexService.java (buildIndex), ConsumeQueue.java
(multiDispatchLmqQueue), MultiDispatchUtils.java, LmqDispatch.java.
"""

from collections.abc import Mapping
from enum import Enum, auto
from itertools import dropwhile
from typing import Final, NamedTuple

from cometmq.format import properties
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.index import TAGS_KEY_PREFIX
from cometmq.format.java.java_hash import tags_code
from cometmq.format.java.java_numbers import NoNumber, to_long
from cometmq.format.layout import RETRY_PREFIX, is_light
from cometmq.format.properties import (
    INNER_MULTI_DISPATCH,
    INNER_MULTI_QUEUE_OFFSET,
    NAME_END,
    VALUE_END,
    split_keys,
)
from cometmq.format.record import Record, size_of
from cometmq.format.sys_flag import (
    TRANSACTION_COMMIT,
    TRANSACTION_NOT,
    TRANSACTION_ROLLBACK,
    transaction_type,
)
from cometmq.message import Buffer

LIGHT_QUEUE_ID: Final = 0
"""The queue id of each light queue."""
LIGHT_OFFSETS: Final = f"{INNER_MULTI_QUEUE_OFFSET}{NAME_END}".encode()
"""How the property with the queue offsets begins."""

_SEPARATOR: Final = ","
_WITHOUT: Final = (RETRY_PREFIX, "rmq_sys_")
"""How topics begin whose records are in no light queue, as that of the schedule is none."""
_END: Final = VALUE_END.encode()


class KeyKind(Enum):
    """The keys that a look-up compares: all that the index holds, those of KEYS, or the unique key."""

    ANY = auto()
    KEY = auto()
    UNIQUE = auto()


class DispatchEntry(NamedTuple):
    """What a record adds to the ConsumeQueue and the Index.

    Attributes:
        size: length of the record in bytes.
        tags_code: the queue entry's tags code: hash of the tags, or in the schedule topic the due time in ms.
        keys: the keys under which the index holds the record, in the order of the file; a key that occurs
            twice is held twice.
        in_queue: whether the record gets a queue entry.
        in_index: whether the record is indexed.
        light_offsets: the light queues that get an entry, too, and its queue offset in each.
    """

    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
    store_time: int
    sys_flag: int
    keys: tuple[str, ...]
    in_queue: bool
    in_index: bool
    light_offsets: Mapping[str, int]


def dispatch_of(record: Record, delay_levels: DelayLevels) -> DispatchEntry:
    """Return what ``record`` adds to the ConsumeQueue and the Index."""
    by_name = properties.decode(record.properties)
    transaction = transaction_type(record.sys_flag)
    in_queue = transaction in (TRANSACTION_NOT, TRANSACTION_COMMIT)
    return DispatchEntry(
        topic=record.topic,
        queue_id=record.queue_id,
        queue_offset=record.queue_offset,
        physical_offset=record.physical_offset,
        size=size_of(record),
        tags_code=queue_tags_code(record.topic, by_name, record.store_time, delay_levels),
        store_time=record.store_time,
        sys_flag=record.sys_flag,
        keys=index_keys(by_name),
        in_queue=in_queue,
        in_index=transaction != TRANSACTION_ROLLBACK,
        light_offsets=light_offsets(record.topic, by_name) if in_queue else {},
    )


def queue_tags_code(
    topic: str, by_name: Mapping[str, str], store_time: int, delay_levels: DelayLevels
) -> int:
    """Return the queue entry's tags code of a message with these properties.

    A DELAY that is not a number counts as absent; RocketMQ does not dispatch such a message at all.
    """
    if topic == SCHEDULE_TOPIC:
        level = delay_levels.level(by_name.get(properties.DELAY, ""))
        if level > 0:
            return delay_levels.deliver_time(level, store_time)
    return tags_code(by_name.get(properties.TAGS))


def index_keys(by_name: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys under which the index holds a message with these properties."""
    keys = split_keys(by_name.get(properties.KEYS, ""))
    if unique_key := by_name.get(properties.UNIQ_KEY):
        keys.insert(0, unique_key)
    if tags := by_name.get(properties.TAGS):
        keys.append(TAGS_KEY_PREFIX + tags)
    return tuple(keys)


def has_key(record: Record, topic: str, key: str, kind: KeyKind = KeyKind.ANY) -> bool:
    """Check that a record has a topic and a key; the index compares only a hash of both."""
    return record.topic == topic and holds_key(record.properties, key, kind)


def holds_key(stored: Buffer, key: str, kind: KeyKind) -> bool:
    """Check that a record with a properties string, as stored, has a key."""
    by_name = properties.decode(stored)
    if kind is KeyKind.UNIQUE:
        return by_name.get(properties.UNIQ_KEY) == key
    if kind is KeyKind.KEY:
        return key in split_keys(by_name.get(properties.KEYS, ""))
    return key in index_keys(by_name)


def light_offsets(topic: str, by_name: Mapping[str, str]) -> dict[str, int]:
    """Return the light queues of a record with these properties, and its queue offset in each."""
    if topic.startswith(_WITHOUT) or topic == SCHEDULE_TOPIC:
        return {}
    names = _split(by_name.get(INNER_MULTI_DISPATCH, ""))
    offsets = _split(by_name.get(INNER_MULTI_QUEUE_OFFSET, ""))
    if len(names) != len(offsets):
        return {}
    found: dict[str, int] = {}
    for name, text in zip(names, offsets, strict=True):
        offset = _offset(text)
        if is_light(name) and offset is not None:
            found.setdefault(name, offset)
    return found


def without_light_offsets(data: bytes) -> bytes:
    """Remove INNER_MULTI_QUEUE_OFFSET from a properties string: it belongs to another record."""
    return _END.join(piece for piece in data.split(_END) if not piece.startswith(LIGHT_OFFSETS))


def _split(text: str) -> list[str]:
    """Split a list as Java does, without the empty texts at its end."""
    return list(dropwhile(lambda part: not part, text.split(_SEPARATOR)[::-1]))[::-1]


def _offset(text: str) -> int | None:
    """Parse a queue offset; None if it is none."""
    try:
        offset = to_long(text)
    except NoNumber:
        return None
    return offset if offset >= 0 else None
