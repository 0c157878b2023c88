"""The store as a library: append, read and find whole messages instead of records.

A message appended here looks like any producer's: a broker can serve the store later.
"""

import os
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from cometmq.arguments import TEXT, check, instance_of, number, or_none, several
from cometmq.errors import DamagedRecord, FormatError, MessageIllegal
from cometmq.filter import tag
from cometmq.format import properties, sent
from cometmq.format.checksum import Crc
from cometmq.format.dispatch import KeyKind
from cometmq.format.host import pack_host
from cometmq.format.layout import valid_topic
from cometmq.format.message_id import UniqueIdMaker, offset_message_id, parse_offset_message_id
from cometmq.format.record import PHYSICAL_OFFSET_AT, SYS_FLAG_AT, Record, decode
from cometmq.format.stored import readable_message, stored_message
from cometmq.message import Message, StoredMessage
from cometmq.store.append import Appended, NewMessage
from cometmq.store.clock_steps import ClockSteps
from cometmq.store.read.get import RecordFilter
from cometmq.store.read.get_result import GetResult
from cometmq.store.read.query import QueryResult
from cometmq.store.read.readings import Readings
from cometmq.store.reading import run
from cometmq.store.settings import StoreSettings

HOST: Final = pack_host("127.0.0.1", 10911)
"""Producer's and broker's address of messages appended here: that of a broker on this machine."""
TIME_MAX: Final = 2**63 - 1
COUNT_MAX: Final = 2**31 - 1
_MESSAGES: Final = several(instance_of(Message), "Messages")


class Receipt(NamedTuple):
    """Where an appended message was stored.

    Attributes:
        message_id: its unique id, built as a producer builds it.
        queue_offset: its index in its queue.
        physical_offset: first byte of its record in the CommitLog.
        store_time: when it was appended, ms since the epoch.
    """

    message_id: str
    topic: str
    queue_id: int
    queue_offset: int
    physical_offset: int
    store_time: int

    @property
    def offset_id(self) -> str:
        """RocketMQ's offset message id, which holds the broker's address and the physical offset."""
        return offset_message_id(HOST, self.physical_offset)


class Messages(ABC):
    """The methods of ``MessageStore`` for whole messages."""

    settings: StoreSettings
    readings: Readings
    clock: ClockSteps

    def append_message(self, message: Message, queue_id: int = 0) -> Receipt:
        """Append one message: see ``append_messages``."""
        return self.append_messages((message,), queue_id)[0]

    def append_messages(self, messages: Iterable[Message], queue_id: int = 0) -> list[Receipt]:
        """Append messages to one queue of their topics, all or none.

        On return they can be read and survive a kill of the process, under SYNC_FLUSH also a loss of power.
        (A store with ``run_soon`` waits for neither the disk nor the pool.)

        Raises:
            MessageIllegal: a message breaks a limit of the format.
            IllegalName: a topic's name.
            StoreNotWritable: disk full, a sync failed, or the store is closed.
        """
        check(number(0), queue_id=queue_id)
        check(_MESSAGES, messages=(messages := list(messages)))
        now, size_max = self.clock.now_ms(), self.settings.max_message_size
        ids: list[str] = []
        ready: list[NewMessage] = []
        for message in messages:
            sent.check(message, body_size_max=size_max)
            if message.is_delayed:
                raise MessageIllegal(
                    f"message for topic {message.topic!r} with a delay: only a broker delays messages"
                )
            ids.append(self._ids.make(now))
            data = sent.properties_of(message, properties.text_of({properties.UNIQ_KEY: ids[-1]}))
            ready.append(
                NewMessage(
                    message.topic,
                    queue_id,
                    message.body,
                    data,
                    now,
                    HOST,
                    HOST,
                    message.tags or None,
                    message.flag,
                )
            )
        return [
            Receipt(unique_id, message.topic, queue_id, at.queue_offset, at.physical_offset, at.store_time)
            for unique_id, message, at in zip(ids, ready, self.append(ready), strict=True)
        ]

    def messages(
        self, topic: str, queue_id: int = 0, begin: int = 0, end: int | None = None, *, tags: str = tag.ALL
    ) -> Iterator[StoredMessage]:
        """Read a queue's messages in order, up to the last one stored.

        Args:
            begin: queue offset to begin at; expired messages are skipped.
            end: queue offset to end before; None for all.
            tags: tag expression, ``*`` or ``a || b``.

        Raises FormatError if ``tags`` is no tag expression, DamagedRecord at a body that is not what was
        appended, UndecodableBody at one that cannot be decompressed: the messages behind it can be read from
        the next queue offset on.
        """
        valid_topic(topic)
        check(number(0), queue_id=queue_id, begin=begin)
        check(or_none(number(0)), end=end)
        return self._read(topic, queue_id, begin, end, tag.parse(tags))

    def message_by_id(self, message_id: str, topic: str | None = None) -> StoredMessage | None:
        """Find a message by its unique id or its offset id, in one topic or in all; None if there is none.

        Unique ids are found through the index. Raises DamagedRecord like ``messages``.
        """
        check(TEXT, message_id=message_id)
        check(or_none(TEXT), topic=topic)
        if (found := self._by_offset_id(message_id)) is not None:
            return found if topic in (None, found.topic) else None
        topics = [topic] if topic is not None else sorted({topic for topic, _ in self.queues()})
        for name in topics:
            if records := self.query(name, message_id, COUNT_MAX, kind=KeyKind.UNIQUE).records:
                return _message(records[0])
        return None

    def messages_by_key(
        self, topic: str, key: str, *, max_count: int = 32, begin_time: int = 0, end_time: int = TIME_MAX
    ) -> list[StoredMessage]:
        """Find the newest messages with a key, stored within a time range (ms); the oldest of them first.

        Returns at most the setting ``max_msgs_num_batch``. Raises DamagedRecord like ``messages``.
        """
        check(TEXT, topic=topic, key=key)
        check(number(), max_count=max_count, begin_time=begin_time, end_time=end_time)
        found = self.query(topic, key, max_count, begin_time, end_time, KeyKind.KEY)
        return [_message(record) for record in found.records]

    @abstractmethod
    def append(self, messages: Sequence[NewMessage]) -> list[Appended]:
        """Append messages in the form in which they are stored, all or none."""

    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = TIME_MAX,
        tags_codes: Container[int] | None = None,
        record_filter: RecordFilter | None = None,
    ) -> GetResult:
        """Read records of one queue: see ``get.get_messages``."""
        return run(
            self.readings.get(topic, queue_id, queue_offset, max_count, max_bytes, tags_codes, record_filter)
        )

    def query(
        self,
        topic: str,
        key: str,
        max_count: int = 32,
        begin_time: int = 0,
        end_time: int = TIME_MAX,
        kind: KeyKind = KeyKind.ANY,
    ) -> QueryResult:
        """Find records of a topic by a key, stored within a time range (ms)."""
        return run(self.readings.query(topic, key, max_count, begin_time, end_time, kind))

    @abstractmethod
    def queues(self) -> list[tuple[str, int]]:
        """Return topic and id of every queue that has had a message."""

    def read_record(self, physical_offset: int) -> bytes | None:
        """Return the record at a CommitLog offset, or None if no readable one begins there."""
        return run(self.readings.record(physical_offset))

    @cached_property
    def _ids(self) -> UniqueIdMaker:
        return UniqueIdMaker(HOST[:4], os.getpid(), secrets.randbits(32))

    def _read(
        self, topic: str, queue_id: int, offset: int, end: int | None, tags: frozenset[str] | None
    ) -> Iterator[StoredMessage]:
        codes = tag.codes(tags)
        while end is None or offset < end:
            result = self.get(topic, queue_id, offset, COUNT_MAX, tags_codes=codes)
            if result.damaged is not None:
                raise result.damaged
            for record in result.records:
                message = _message(record, stored_message)
                if end is not None and message.queue_offset >= end:
                    return
                if tags is None or message.tags in tags:
                    yield message
            if result.next_offset <= offset:
                return
            offset = result.next_offset

    def _by_offset_id(self, message_id: str) -> StoredMessage | None:
        """Return the message whose offset id this is, else None: unique ids look alike."""
        try:
            host, physical_offset = parse_offset_message_id(message_id)
        except FormatError:
            return None
        if (data := self.read_record(physical_offset)) is None:
            return None
        return _message(data) if decode(data, crc=Crc.NONE).store_host == host else None


def _message(data: bytes, message_of: Callable[[Record], StoredMessage] = readable_message) -> StoredMessage:
    """Return the message of a record. Raises DamagedRecord with its CommitLog offset."""
    try:
        return message_of(decode(data))
    except DamagedRecord as damage:
        offset = int.from_bytes(data[PHYSICAL_OFFSET_AT:SYS_FLAG_AT], "big")
        raise DamagedRecord(offset, damage.reason) from None
