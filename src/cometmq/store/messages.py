"""The store as a library: whole messages in and out, over the records that ``MessageStore`` deals in.

What is appended here looks like any producer's message: a broker can serve the store later, and any client
read it.
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
from cometmq.format.record import PHYSICAL_OFFSET_AT, Record, decode
from cometmq.format.stored import readable_message, stored_message
from cometmq.message import Message, StoredMessage
from cometmq.store.append import Appended, NewMessage
from cometmq.store.clock_steps import ClockSteps
from cometmq.store.read.get_result import GetResult
from cometmq.store.read.query import QueryResult
from cometmq.store.read.reading import run
from cometmq.store.read.readings import Readings
from cometmq.store.settings import StoreSettings

HOST: Final = pack_host("127.0.0.1", 10911)
"""Producer and broker of what is appended here: where a broker of this machine would serve it."""
TIME_MAX: Final = 2**63 - 1
ALL: Final = 2**31 - 1
_MESSAGES: Final = several(instance_of(Message), "Messages")


class Receipt(NamedTuple):
    """Where a message went.

    Attributes:
        message_id: its unique id, as its producer would have made it.
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
        """RocketMQ's offset message id, which says where the record lies."""
        return offset_message_id(HOST, self.physical_offset)


class Messages(ABC):
    """Appends, reads and finds whole messages; a base of ``MessageStore``."""

    settings: StoreSettings
    readings: Readings
    clock: ClockSteps

    def append_message(self, message: Message, queue_id: int = 0) -> Receipt:
        """Append one message: see ``append_messages``."""
        return self.append_messages((message,), queue_id)[0]

    def append_messages(self, messages: Iterable[Message], queue_id: int = 0) -> list[Receipt]:
        """Append messages to one queue of their topics, all or none.

        On return they can be read, and a kill of the process takes none of them; under SYNC_FLUSH a loss of
        power takes none either. (A store with ``run_soon`` waits for neither the disk nor the pool.)

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
        """Read a queue's messages in their order, up to the last one that is there.

        Args:
            begin: queue offset to begin at; what has expired before the first that is left is passed over.
            end: queue offset to end before; None for all.
            tags: which ones, ``*`` or ``a || b``.

        Raises FormatError if ``tags`` is no tag expression, DamagedRecord at a body that is not what was
        appended, UndecodableBody at one that cannot be decompressed: what is behind it can be read from the
        next queue offset on.
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
            if records := self.query(name, message_id, ALL, kind=KeyKind.UNIQUE).records:
                return _message(records[0])
        return None

    def messages_by_key(
        self, topic: str, key: str, *, max_count: int = 32, begin_time: int = 0, end_time: int = TIME_MAX
    ) -> list[StoredMessage]:
        """Find the newest messages with a key, stored within a time range (ms); the oldest of them first.

        At most ``max_msgs_num_batch`` of the settings are given. Raises DamagedRecord like ``messages``.
        """
        check(TEXT, topic=topic, key=key)
        check(number(), max_count=max_count, begin_time=begin_time, end_time=end_time)
        found = self.query(topic, key, max_count, begin_time, end_time, KeyKind.KEY)
        return [_message(record) for record in found.records]

    @abstractmethod
    def append(self, messages: Sequence[NewMessage]) -> list[Appended]:
        """Append messages as they are stored, all or none."""

    @abstractmethod
    def get(
        self,
        topic: str,
        queue_id: int,
        queue_offset: int,
        max_count: int = 32,
        max_bytes: int = TIME_MAX,
        tags_codes: Container[int] | None = None,
    ) -> GetResult:
        """Read records of one queue."""

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
        """Give topic and id of every queue that has had a message."""

    @abstractmethod
    def read_record(self, physical_offset: int) -> bytes | None:
        """Give the record at a CommitLog offset, or None if none begins there."""

    @cached_property
    def _ids(self) -> UniqueIdMaker:
        return UniqueIdMaker(HOST[:4], os.getpid(), secrets.randbits(32))

    def _read(
        self, topic: str, queue_id: int, offset: int, end: int | None, wanted: frozenset[str] | None
    ) -> Iterator[StoredMessage]:
        codes = tag.codes(wanted)
        while end is None or offset < end:
            result = self.get(topic, queue_id, offset, ALL, tags_codes=codes)
            if result.damaged is not None:
                raise result.damaged
            for record in result.records:
                message = _message(record, stored_message)
                if end is not None and message.queue_offset >= end:
                    return
                if wanted is None or message.tags in wanted:
                    yield message
            if result.next_offset <= offset:
                return
            offset = result.next_offset

    def _by_offset_id(self, message_id: str) -> StoredMessage | None:
        """Give the message that the id names if it is an offset id: the two kinds look alike."""
        try:
            host, physical_offset = parse_offset_message_id(message_id)
        except FormatError:
            return None
        if (data := self.read_record(physical_offset)) is None:
            return None
        return _message(data) if decode(data, crc=Crc.NONE).store_host == host else None


def _message(data: bytes, message_of: Callable[[Record], StoredMessage] = readable_message) -> StoredMessage:
    """Return the message that a record holds. Raises DamagedRecord, which says where in the log it lies."""
    try:
        return message_of(decode(data))
    except DamagedRecord as damage:
        offset = int.from_bytes(data[PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8], "big")
        raise DamagedRecord(offset, damage.reason) from None
