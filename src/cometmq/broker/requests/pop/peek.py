"""PEEK_MESSAGE: messages that the next pop would find, without handing them out.

It moves no offset and has no filter; messages of the retry topic come under its name. What it finds may be
handed out to others at the same time. (RocketMQ: PeekMessageProcessor.java.)
"""

from functools import partial

from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import Reads
from cometmq.broker.refused import code_of
from cometmq.broker.requests.pop.checks import PopChecks
from cometmq.broker.requests.pop.pop import NOTHING, NOTHING_FIELDS
from cometmq.broker.requests.pop.pop_offsets import PopOffsets
from cometmq.broker.requests.pop.popped import FOUND
from cometmq.broker.requests.pop.sources import PopSources, Source
from cometmq.broker.requests.pop.visits import BYTES_MAX
from cometmq.broker.state.offsets import key_of
from cometmq.errors import CometMQError
from cometmq.message import Buffer
from cometmq.net.server import Session
from cometmq.store.read.get_result import GetStatus
from cometmq.store.reading import Reading
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode, ResponseCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import PeekHeader, PopResponseHeader, fields


class Peeks:
    """Answers peeks."""

    def __init__(
        self,
        store: MessageStore,
        checks: PopChecks,
        sources: PopSources,
        offsets: PopOffsets,
        reads: Reads,
    ) -> None:
        self._store = store
        self._checks = checks
        self._sources = sources
        self._offsets = offsets
        self._reads = reads

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {RequestCode.PEEK_MESSAGE: self.handle}

    def handle(self, session: Session, command: Command, header: PeekHeader) -> Command | None:
        """PEEK_MESSAGE; clients read the header of a refusal, too."""
        group = header.consumer_group
        try:
            self._checks.check_readable()
            checked = self._checks.check(group, header.topic, header.queue_id)
        except CometMQError as error:
            return response(command, code_of(error), str(error), NOTHING_FIELDS)
        sources = self._sources.of_peek(checked.topic, group, header.queue_id)
        reading = self._read(group, sources, header.max_msg_nums)
        return self._reads.answer(session, command, reading, partial(_answer, command))

    def _read(self, group: str, sources: list[Source], max_count: int) -> Reading[tuple[list[Buffer], int]]:
        """Read messages of some queues; return their records, and about how many more there are."""
        records: list[Buffer] = []
        count = size = rest = 0
        for source in sources:
            key, topic = key_of(group, source.topic), source.topic
            for queue_id in source.queue_ids:
                end = self._store.max_queue_offset(topic, queue_id)
                offset = self._offsets.next_offset(key, queue_id)
                if offset is None:
                    offset = self._store.min_queue_offset(topic, queue_id)
                if offset < end and count < max_count and size < BYTES_MAX // 2:
                    get = self._store.readings.get
                    found = yield from get(topic, queue_id, offset, max_count - count, BYTES_MAX // 2 - size)
                    if found.status is GetStatus.FOUND:
                        data = b"".join(found.runs)
                        records.append(data)
                        count += len(found.sizes)
                        size += len(data)
                    offset = found.next_offset
                rest += max(end - offset, 0)
        return records, rest


def _answer(command: Command, found: tuple[list[Buffer], int]) -> Command:
    records, rest = found
    header = fields(PopResponseHeader(0, 0, 0, rest))
    if records:
        return response(command, ResponseCode.SUCCESS, FOUND, header, b"".join(records))
    return response(command, ResponseCode.PULL_NOT_FOUND, NOTHING, header)
