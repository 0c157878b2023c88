"""What is given to the store to append, and what it gives back."""

from collections.abc import Mapping
from typing import NamedTuple

from cometmq.format import properties
from cometmq.format.record import Record


class NewMessage(NamedTuple):
    """A message on its way into the CommitLog.

    ``tags`` repeats what ``properties`` holds under TAGS, so that dispatch need not look for it again.

    Attributes:
        properties: the properties string as it is stored, at most 32,767 bytes.
        born_host: packed IP and port of the producer, 8 or 20 bytes.
        store_host: packed IP and port of the broker, 8 or 20 bytes.
        sys_flag: RocketMQ's bits; those for the hosts are set by the record.
    """

    topic: str
    queue_id: int
    body: bytes
    properties: bytes
    born_time: int
    born_host: bytes
    store_host: bytes
    tags: str | None = None
    flag: int = 0
    sys_flag: int = 0
    reconsume_times: int = 0
    prepared_transaction_offset: int = 0


class Appended(NamedTuple):
    """Where a message went.

    Attributes:
        physical_offset: first byte of its record in the CommitLog.
        queue_offset: its index in its queue.
        size: length of its record.
        store_time: when it was appended, ms.
    """

    physical_offset: int
    queue_offset: int
    size: int
    store_time: int


def once_more(record: Record, named: Mapping[str, str] | None = None) -> NewMessage:
    """Return the message of a record, to be appended again.

    Args:
        named: the record's properties by name, for callers that have them.
    """
    if named is None:
        named = properties.decode(record.properties)
    return NewMessage(
        record.topic,
        record.queue_id,
        record.body,
        record.properties,
        record.born_time,
        record.born_host,
        record.store_host,
        named.get(properties.TAGS),
        record.flag,
        record.sys_flag,
        record.reconsume_times,
    )
