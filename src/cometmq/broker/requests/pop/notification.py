"""NOTIFICATION: tell a client when a pop would find messages; POLLING_INFO: count the pops that wait.

A proxy asks so for its consumers. A notification without a message is held as a pop is.
(RocketMQ: NotificationProcessor.java, PollingInfoProcessor.java.)
"""

from functools import partial
from typing import Final

from cometmq.broker.handlers import Handlers
from cometmq.broker.reads import Reads
from cometmq.broker.refused import code_of
from cometmq.broker.requests.pop.checks import PopChecks
from cometmq.broker.requests.pop.in_order import OrderedPops, PopInOrder
from cometmq.broker.requests.pop.pop_offsets import PopOffsets
from cometmq.broker.requests.pop.sources import PopSources, Source
from cometmq.broker.requests.pop.waiting import HeldRequest, Waiting
from cometmq.broker.state.offsets import key_of
from cometmq.broker.state.subscriptions import PullFilter
from cometmq.cluster.pop.hold import ALL_QUEUES
from cometmq.errors import CometMQError
from cometmq.format.pop.names import RetryFlag
from cometmq.net.server import Session
from cometmq.store.reading import Reading
from cometmq.store.store import MessageStore
from cometmq.wire.codes import RequestCode
from cometmq.wire.frame import Command, response
from cometmq.wire.headers import (
    NotificationHeader,
    NotificationResponseHeader,
    PollingInfoHeader,
    PollingInfoResponseHeader,
    fields,
)

EXAMINED_MAX: Final = 64
"""A queue with at least this many messages counts as having one, whatever the tags that are wanted."""


class Notifications:
    """Answers notifications, and holds those that wait."""

    def __init__(
        self,
        store: MessageStore,
        checks: PopChecks,
        sources: PopSources,
        ordered: OrderedPops,
        offsets: PopOffsets,
        reads: Reads,
        waiting: Waiting,
    ) -> None:
        self._store = store
        self._checks = checks
        self._sources = sources
        self._ordered = ordered
        self._offsets = offsets
        self._reads = reads
        self._waiting = waiting

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.NOTIFICATION: self.handle,
            RequestCode.POLLING_INFO: self.polling_info,
        }

    def handle(self, session: Session, command: Command, header: NotificationHeader) -> None:
        """NOTIFICATION."""
        deadline_ms = self._waiting.deadline_ms(header.born_time, header.poll_time)
        self._serve(HeldRequest(session, command, header, deadline_ms, self._serve))

    def polling_info(self, _session: Session, command: Command, header: PollingInfoHeader) -> Command:
        """POLLING_INFO: the pops that wait for exactly this queue, or with a negative id for all of them."""
        self._checks.check_readable()
        self._checks.check(header.consumer_group, header.topic, header.queue_id)
        place = header.topic, header.consumer_group, max(header.queue_id, ALL_QUEUES)
        count = self._waiting.pops.count_at(place)
        return response(command, ext_fields=fields(PollingInfoResponseHeader(count)))

    def _serve(self, request: HeldRequest) -> None:
        """Look for messages, and answer or hold a notification."""
        header, session = request.header, request.owner
        group = header.consumer_group
        try:
            self._checks.check_readable()
            checked = self._checks.check(group, header.topic, header.queue_id, header.exp_type, header.exp)
            request.tags_codes = checked.wanted.tags_codes
            if header.order:
                in_order = self._ordered.begin(header.attempt_id)
                sources = self._sources.of_pop_in_order(checked.topic, header.queue_id)
            else:
                in_order = None
                sources = self._sources.of_notification(checked.topic, group, header.queue_id)
            search = self._has_message(group, sources, checked.wanted, in_order)
            end = partial(self._end, request, in_order)
            answer = self._reads.answer(session, request.command, search, end)
        except CometMQError as error:
            answer = response(request.command, code_of(error), str(error))
        if answer is not None and not request.command.is_oneway:
            session.send(answer)

    def _end(self, request: HeldRequest, in_order: PopInOrder | None, has_message: bool) -> Command | None:
        """Answer a notification, or hold it if there is no message and it may wait."""
        is_full = False
        if not has_message and self._waiting.may_wait(request):
            if self._waiting.hold(self._waiting.notifications, request):
                if in_order is not None:
                    self._ordered.wake_later(in_order)
                return None
            is_full = True
        answer = fields(NotificationResponseHeader(has_message, is_full))
        return response(request.command, ext_fields=answer)

    def _has_message(
        self, group: str, sources: list[Source], wanted: PullFilter, in_order: PopInOrder | None
    ) -> Reading[bool]:
        """Check whether a pop would find a message; if only one of few would match, by their tags."""
        while True:
            dispatched_offset = self._store.dispatched_offset
            for source in sources:
                key = key_of(group, source.topic)
                for queue_id in source.queue_ids:
                    end = self._store.max_queue_offset(source.topic, queue_id)
                    if in_order is not None and self._ordered.is_blocked(in_order, key, queue_id, end):
                        continue
                    if (yield from self._has_match(source, key, queue_id, wanted)):
                        return True
            if self._store.dispatched_offset == dispatched_offset:
                return False  # else a message may have come while the disk was waited for

    def _has_match(self, source: Source, key: str, queue_id: int, wanted: PullFilter) -> Reading[bool]:
        """Check whether a pop of one queue would find a message."""
        store, topic, tags_codes = self._store, source.topic, wanted.tags_codes
        offset = self._offsets.next_offset(key, queue_id)
        if offset is None:
            offset = store.min_queue_offset(topic, queue_id)
        count = store.max_queue_offset(topic, queue_id) - offset
        if count <= 0:
            return False
        if tags_codes is None or count >= EXAMINED_MAX or source.retry_flag is not RetryFlag.NONE:
            return True
        codes = yield from store.readings.tags_codes(topic, queue_id, offset, count)
        return any(code in tags_codes for code in codes)
