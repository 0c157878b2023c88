"""Positions in queues: by store time, the ends, the entries there; and the offsets that groups commit."""

from functools import partial
from typing import Final

from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused
from cometmq.broker.state.groups import Groups
from cometmq.broker.state.offsets import Offsets
from cometmq.broker.state.topics import Topics
from cometmq.format.queue_entry import QueueEntry
from cometmq.net.server import Session
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import ListedEntries, ListedEntry, encode
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import (
    GetEarliestStoreTimeHeader,
    GetEarliestStoreTimeResponseHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetResponseHeader,
    QueryConsumeQueueHeader,
    QueryConsumerOffsetHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
    fields,
)

ENTRIES_MAX: Final = 100
"""Most entries of a queue that one request is answered with."""


class Positions:
    """Answers requests about positions in queues."""

    def __init__(
        self, store: MessageStore, reads: Reads, topics: Topics, groups: Groups, offsets: Offsets
    ) -> None:
        self._store = store
        self._reads = reads
        self._topics = topics
        self._groups = groups
        self._offsets = offsets

    def handlers(self) -> Handlers:
        """Return the handlers by request code."""
        return {
            RequestCode.QUERY_CONSUMER_OFFSET: self.committed_offset,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.commit_offset,
            RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: self.offset_by_time,
            RequestCode.GET_MAX_OFFSET: self.max_offset,
            RequestCode.GET_MIN_OFFSET: self.min_offset,
            RequestCode.GET_EARLIEST_MSG_STORETIME: self.earliest_store_time,
            RequestCode.QUERY_CONSUME_QUEUE: self.entries,
        }

    def offset_by_time(
        self, session: Session, command: Command, header: SearchOffsetHeader
    ) -> Command | None:
        """SEARCH_OFFSET_BY_TIMESTAMP."""
        upper = (header.boundary or "").upper() == "UPPER"
        reading = self._store.readings.offset_by_time(header.topic, header.queue_id, header.time, upper=upper)
        return self._reads.answer(session, command, reading, partial(_offset, command))

    def max_offset(self, _session: Session, command: Command, header: GetMaxOffsetHeader) -> Command:
        """GET_MAX_OFFSET."""
        return _offset(command, self._store.max_queue_offset(header.topic, header.queue_id))

    def min_offset(self, _session: Session, command: Command, header: GetMinOffsetHeader) -> Command:
        """GET_MIN_OFFSET."""
        return _offset(command, self._store.min_queue_offset(header.topic, header.queue_id))

    def earliest_store_time(
        self, session: Session, command: Command, header: GetEarliestStoreTimeHeader
    ) -> Command | None:
        """GET_EARLIEST_MSG_STORETIME."""
        first = self._store.min_queue_offset(header.topic, header.queue_id)
        reading = self._store.readings.store_time_at(header.topic, header.queue_id, first)

        def make(time: int) -> Command:
            return response(command, ext_fields=fields(GetEarliestStoreTimeResponseHeader(time)))

        return self._reads.answer(session, command, reading, make)

    def entries(self, session: Session, command: Command, header: QueryConsumeQueueHeader) -> Command | None:
        """QUERY_CONSUME_QUEUE: entries of a queue, at most ``ENTRIES_MAX``; no group's filter is applied."""
        place = header.topic, header.queue_id
        low, high = self._store.ends_of(*place)
        reading = self._store.readings.entries(*place, header.queue_offset, min(header.count, ENTRIES_MAX))

        def make(entries: list[QueueEntry]) -> Command:
            listed = [ListedEntry(False, *entry) for entry in entries]
            return response(command, body=encode(ListedEntries(high, low, listed)))

        return self._reads.answer(session, command, reading, make)

    def committed_offset(
        self, session: Session, command: Command, header: QueryConsumerOffsetHeader
    ) -> Command | None:
        """QUERY_CONSUMER_OFFSET: the committed offset, or 0 for a new group at a young queue."""
        offset = self._offsets.committed(header.consumer_group, header.topic, header.queue_id)
        if offset is not None:
            return _offset(command, offset)

        def make(is_young: bool) -> Command:
            zero_allowed = header.set_zero_if_not_found is not False
            if not (zero_allowed and is_young):
                raise Refused(
                    ResponseCode.QUERY_NOT_FOUND,
                    "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
                )
            return _offset(command, 0)

        is_young = self._store.readings.is_young(header.topic, header.queue_id)
        return self._reads.answer(session, command, is_young, make)

    def commit_offset(
        self, _session: Session, command: Command, header: UpdateConsumerOffsetHeader
    ) -> Command:
        """UPDATE_CONSUMER_OFFSET."""
        group, topic = header.consumer_group, header.topic
        if self._groups.find_or_create(group) is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} not exist!")
        config = self._topics.find(topic)
        if config is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} not exist!")
        queue_count = max(config.read_queue_count, config.write_queue_count)
        if not 0 <= header.queue_id < queue_count:
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"topic {topic} has no queue {header.queue_id}: it has {queue_count}, from 0 on",
            )
        if header.commit_offset < 0:
            raise Refused(
                ResponseCode.INVALID_PARAMETER, f"offset {header.commit_offset}: commit 0 or a later one"
            )
        self._offsets.commit(group, topic, header.queue_id, header.commit_offset)
        return response(command)


def _offset(command: Command, offset: int) -> Command:
    return response(command, ext_fields=fields(OffsetResponseHeader(offset)))
