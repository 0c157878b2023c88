"""Finding messages and positions: by offset id, key, time; the ends of queues; committed offsets."""

import os
from typing import Final

from cometmq.broker.groups import Groups
from cometmq.broker.offsets import Offsets
from cometmq.broker.refused import Refused
from cometmq.broker.topics import Topics
from cometmq.format.record import PHYSICAL_OFFSET_AT
from cometmq.net.server import Session
from cometmq.store.store import MessageStore
from cometmq.wire.codes import ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import (
    GetEarliestStoreTimeHeader,
    GetEarliestStoreTimeResponseHeader,
    GetMaxOffsetHeader,
    GetMinOffsetHeader,
    OffsetResponseHeader,
    QueryConsumerOffsetHeader,
    QueryMessageHeader,
    QueryMessageResponseHeader,
    SearchOffsetHeader,
    UpdateConsumerOffsetHeader,
    ViewMessageHeader,
    fields,
    parse,
)

UNIQUE_KEY_COUNT_MAX: Final = 32
"""Most messages that a query by unique key gives (RocketMQ: ``defaultQueryMaxNum``)."""

IN_MEMORY_RATIO: Final = 0.4
"""The newest part of the log that is taken to be in the page cache, of the machine's memory."""


class Queries:
    """Answers questions about messages and positions."""

    def __init__(self, store: MessageStore, topics: Topics, groups: Groups, offsets: Offsets) -> None:
        self._store = store
        self._topics = topics
        self._groups = groups
        self._offsets = offsets
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        self._in_memory_bytes = int(memory * IN_MEMORY_RATIO)

    def message_by_id(self, _: Session, command: Command) -> Command:
        """VIEW_MESSAGE_BY_ID: the record that begins at a CommitLog offset."""
        header = parse(ViewMessageHeader, command.ext_fields)
        record = self._store.read_record(header.physical_offset)
        if record is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {header.physical_offset}"
            )
        return response(command, body=record)

    def messages_by_key(self, _: Session, command: Command) -> Command:
        """QUERY_MESSAGE: the records with a key or a unique key, stored within a time range."""
        header = parse(QueryMessageHeader, command.ext_fields)
        result = self._store.query(
            header.topic,
            header.key,
            UNIQUE_KEY_COUNT_MAX if header.is_unique_key else header.max_count,
            header.begin_time,
            header.end_time,
        )
        answer = QueryMessageResponseHeader(result.index_last_update_time, result.index_last_update_offset)
        if not result.records:
            remark = "can not find message, maybe time range not correct"
            return response(command, ResponseCode.QUERY_NOT_FOUND, remark, fields(answer))
        return response(command, ext_fields=fields(answer), body=b"".join(result.records))

    def offset_by_time(self, _: Session, command: Command) -> Command:
        """SEARCH_OFFSET_BY_TIMESTAMP."""
        header = parse(SearchOffsetHeader, command.ext_fields)
        upper = (header.boundary or "").upper() == "UPPER"
        offset = self._store.offset_by_time(header.topic, header.queue_id, header.time, upper=upper)
        return _offset(command, offset)

    def max_offset(self, _: Session, command: Command) -> Command:
        """GET_MAX_OFFSET."""
        header = parse(GetMaxOffsetHeader, command.ext_fields)
        return _offset(command, self._store.max_queue_offset(header.topic, header.queue_id))

    def min_offset(self, _: Session, command: Command) -> Command:
        """GET_MIN_OFFSET."""
        header = parse(GetMinOffsetHeader, command.ext_fields)
        return _offset(command, self._store.min_queue_offset(header.topic, header.queue_id))

    def earliest_store_time(self, _: Session, command: Command) -> Command:
        """GET_EARLIEST_MSG_STORETIME."""
        header = parse(GetEarliestStoreTimeHeader, command.ext_fields)
        first = self._store.min_queue_offset(header.topic, header.queue_id)
        time = self._store.store_time_at(header.topic, header.queue_id, first)
        return response(command, ext_fields=fields(GetEarliestStoreTimeResponseHeader(time)))

    def committed_offset(self, _: Session, command: Command) -> Command:
        """QUERY_CONSUMER_OFFSET: what was committed, or 0 for a new group at a young queue."""
        header = parse(QueryConsumerOffsetHeader, command.ext_fields)
        offset = self._offsets.committed(header.consumer_group, header.topic, header.queue_id)
        if offset is None:
            zero_allowed = header.set_zero_if_not_found is not False
            if not (zero_allowed and self._is_young(header.topic, header.queue_id)):
                raise Refused(
                    ResponseCode.QUERY_NOT_FOUND,
                    "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first",
                )
            offset = 0
        return _offset(command, offset)

    def commit_offset(self, _: Session, command: Command) -> Command:
        """UPDATE_CONSUMER_OFFSET."""
        header = parse(UpdateConsumerOffsetHeader, command.ext_fields)
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

    def _is_young(self, topic: str, queue_id: int) -> bool:
        """Tell whether a queue's first message, if there is one, is still in the page cache."""
        if self._store.min_queue_offset(topic, queue_id) > 0:
            return False
        records = self._store.get(topic, queue_id, 0, 1).records
        if not records:
            return self._store.max_queue_offset(topic, queue_id) == 0
        physical_offset = int.from_bytes(records[0][PHYSICAL_OFFSET_AT : PHYSICAL_OFFSET_AT + 8], "big")
        return self._store.written_offset - physical_offset <= self._in_memory_bytes


def _offset(command: Command, offset: int) -> Command:
    return response(command, ext_fields=fields(OffsetResponseHeader(offset)))
