"""Operators' requests to list, reset, clone and compare offsets. (RocketMQ: AdminBrokerProcessor.java.)"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final

from cometmq.broker.admin.progress import GroupTables
from cometmq.broker.handlers import Handlers
from cometmq.broker.large_answers import TURN_MAX, encoded, made, with_body
from cometmq.broker.reads import Reads
from cometmq.broker.refused import Refused
from cometmq.broker.state.offsets import SEPARATOR, key_of
from cometmq.broker.state.topics import Topics
from cometmq.format.java import fastjson
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.net.server import Session
from cometmq.store.reading import PAUSE, Reading
from cometmq.store.store import MessageStore
from cometmq.wire.bodies import QueueOffsets
from cometmq.wire.bodies.heartbeat import ConsumeType
from cometmq.wire.bodies.stats import CorrectionOffsets
from cometmq.wire.codes import LANGUAGE, RequestCode, ResponseCode
from cometmq.wire.command import ONEWAY_FLAG
from cometmq.wire.frame import Command, encode, response
from cometmq.wire.headers import CloneOffsetHeader, ResetOffsetHeader
from cometmq.wire.headers.admin import AllOffsetsHeader, CorrectionOffsetHeader

LONG_MAX: Final = 2**63 - 1
SEARCHED_MAX: Final = 50
"""Most queues that one turn of the loop searches by time."""
BEGINS_MAX: Final = 100
"""Most queues of which one turn of the loop finds where a group begins."""
LOGGED_MAX: Final = 20
"""Most topics of a request that are named in the log."""

_log = get_logger(__name__)


class OffsetAdmin:
    """Lists, resets, clones and compares offsets.

    Args:
        when_reset: called with group, topic and queue id of each reset.
    """

    def __init__(
        self,
        tables: GroupTables,
        topics: Topics,
        when_reset: Sequence[Callable[[str, str, int], object]],
        store: MessageStore,
        reads: Reads,
        *,
        broker_name: str,
    ) -> None:
        self._groups, self._consumers, self._offsets, self._beginnings, _ = tables
        self._topics = topics
        self._when_reset = when_reset
        self._store = store
        self._reads = reads
        self._broker_name = broker_name

    def handlers(self) -> Handlers:
        """Return the handler of each request code."""
        return {
            RequestCode.GET_ALL_CONSUMER_OFFSET: self.all,
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset,
            RequestCode.CLONE_GROUP_OFFSET: self.clone,
            RequestCode.QUERY_CORRECTION_OFFSET: self.correction,
        }

    def all(self, session: Session, command: Command, header: AllOffsetsHeader) -> Command | None:
        """GET_ALL_CONSUMER_OFFSET: the committed offsets of all groups.

        With the ends of queues, if these are wanted, and where groups begin that have committed nothing.
        """
        reading = self._all(with_ends=header.with_ends)
        return self._reads.answer(session, command, reading, partial(with_body, command))

    def reset(self, session: Session, command: Command, header: ResetOffsetHeader) -> Command | None:
        """INVOKE_BROKER_TO_RESET_OFFSET: by time in all queues, or in one; or to an offset in one.

        It takes effect whether members are connected or not. The next pull of each queue, at once if it is
        held, is answered with the new offset: any client follows such a response.
        """
        group, topic = header.group, header.topic
        config = self._topics.find(topic)
        if config is None:
            raise Refused(ResponseCode.TOPIC_NOT_EXIST, f"Topic {topic} does not exist")
        if self._groups.find(group) is None:
            raise Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, f"Group {group} does not exist")
        queue_ids = range(config.read_queue_count) if header.queue_id < 0 else [header.queue_id]
        if header.queue_id >= max(config.read_queue_count, config.write_queue_count):
            raise Refused(
                ResponseCode.INVALID_PARAMETER,
                f"topic {topic} has no queue {header.queue_id}: it has {config.read_queue_count}, from 0 on",
            )

        def reset_all() -> Reading[bytes]:
            offsets = yield from self._targets(header, queue_ids)
            for number, (queue, offset) in enumerate(offsets.items()):
                if number % TURN_MAX == TURN_MAX - 1:
                    yield PAUSE
                self._offsets.reset(group, topic, queue.queue_id, offset)
                for action in self._when_reset:
                    action(group, topic, queue.queue_id)
            body = yield from encoded(QueueOffsets(offsets), len(offsets))
            yield from self._push_reset(group, topic, body)
            return body

        return self._reads.answer(session, command, reset_all(), partial(with_body, command))

    def clone(self, session: Session, command: Command, header: CloneOffsetHeader) -> Command | None:
        """CLONE_GROUP_OFFSET: in existing topics that the source group subscribes to, unless ``offline``."""
        return self._reads.answer(session, command, self._clone(header), lambda _: response(command))

    def correction(
        self, session: Session, command: Command, header: CorrectionOffsetHeader
    ) -> Command | None:
        """QUERY_CORRECTION_OFFSET: by queue the lowest offset of all groups, but for those left out.

        Offsets before the queue's first message do not count. Where the group that is compared is behind,
        the answer is the largest number. (A Java broker deletes the offsets of the groups left out.)
        """
        return self._reads.answer(session, command, self._correction(header), partial(with_body, command))

    def _push_reset(self, group: str, topic: str, body: bytes) -> Reading[None]:
        """Send a reset to the members that pop, so that they drop what they have popped and not begun.

        It goes only to clients in CometMQ's language: Java's, which cannot drop it, would pause for 10 s.
        Members that pull need none: see ``reset``.
        """
        known = self._consumers.find(group)
        if known is None or known.consume_type is not ConsumeType.CONSUME_POP:
            return
        header = {"group": group, "topic": topic}
        code = RequestCode.RESET_CONSUMER_CLIENT_OFFSET
        frame = encode(Command(code, 0, ONEWAY_FLAG, ext_fields=header, body=body))
        sessions = [session for session, member in known.members.items() if member.language is LANGUAGE]
        for number, session in enumerate(sessions):
            if number % TURN_MAX == TURN_MAX - 1:
                yield PAUSE
            session.send(frame)

    def _correction(self, header: CorrectionOffsetHeader) -> Reading[bytes]:
        topic, left_out = header.topic, set((header.left_out or "").split(","))
        lowest: dict[int, int] = {}
        turn = 0
        for group in self._offsets.groups_of(topic) - left_out:
            for queue_id, offset in self._committed(group, topic).items():
                turn += 1
                if turn % TURN_MAX == 0:
                    yield PAUSE
                if offset >= self._store.min_queue_offset(topic, queue_id):
                    lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
        for queue_id, offset in self._committed(header.compare_group, topic).items():
            if lowest.get(queue_id, offset) > offset:
                lowest[queue_id] = LONG_MAX
        return (yield from encoded(CorrectionOffsets(lowest), len(lowest)))

    def _committed(self, group: str, topic: str) -> dict[int, int]:
        key = key_of(group, topic)
        return self._offsets.copies([key]).get(key, {})

    def _clone(self, header: CloneOffsetHeader) -> Reading[None]:
        source, skipped = header.source_group, 0
        topics = [header.topic] if header.topic else sorted(self._offsets.topics_of(source))
        for number, topic in enumerate(topics):
            if number % TURN_MAX == TURN_MAX - 1:
                yield PAUSE
            why_not = self._why_not_cloned(header, topic)
            if why_not is None:
                self._offsets.clone(source, header.target_group, topic)
                continue
            skipped += 1
            if skipped <= LOGGED_MAX:
                _log.warning("offsets of group %.130r in %.130r are not cloned: %s", source, topic, why_not)
        if (further := skipped - LOGGED_MAX) > 0:
            _log.warning("offsets of group %.130r in %d further topics are not cloned", source, further)

    def _why_not_cloned(self, header: CloneOffsetHeader, topic: str) -> str | None:
        if self._topics.find(topic) is None:
            return "no such topic"
        if not header.offline and not self._consumers.may_consume(header.source_group, topic):
            return "its members do not subscribe to it"
        return None

    def _all(self, *, with_ends: bool) -> Reading[bytes]:
        """Copy some offsets in each turn of the loop: only one group's in one topic must be consistent."""
        keys = self._offsets.keys()
        copies: dict[str, dict[int, int]] = {}
        for first in range(0, len(keys), TURN_MAX):
            if first:
                yield PAUSE
            copies |= self._offsets.copies(keys[first : first + TURN_MAX])
        ends: dict[str, dict[int, int]] = {}
        begins: dict[str, dict[int, int]] = {}
        if with_ends:
            begins = yield from self._begins(copies)
            topics = {key.partition(SEPARATOR)[0] for key in copies.keys() | begins.keys()}
            ends = yield from self._ends(sorted(topics))

        def write() -> bytes:
            table = self._offsets.as_table(copies)
            if with_ends:
                table["endTable"], table["beginTable"] = ends, begins
            return fastjson.dumps(table).encode()

        return (yield from made(write, len(copies) + len(begins) + len(ends)))

    def _begins(self, committed: Mapping[str, Mapping[int, int]]) -> Reading[dict[str, dict[int, int]]]:
        """Return where groups begin in queues in which they have committed nothing, as far as it is known."""
        found: dict[str, dict[int, int]] = {}
        keys = dict.fromkeys(committed)
        for number, group in enumerate(self._consumers.groups()):
            if number % TURN_MAX == TURN_MAX - 1:
                yield PAUSE
            keys |= dict.fromkeys(key_of(group, topic) for topic in self._beginnings.topics_of(group))
        turn = 0
        for number, key in enumerate(keys):
            if number % TURN_MAX == TURN_MAX - 1:
                yield PAUSE
            topic, _, group = key.partition(SEPARATOR)
            config, known = self._topics.find(topic), committed.get(key, {})
            count = 0 if config is None else config.read_queue_count
            for queue_id in range(count if len(known) < count else 0):
                turn += 1
                if turn % BEGINS_MAX == 0:
                    yield PAUSE
                begin = None if queue_id in known else self._beginnings.find(group, topic, queue_id)
                if begin is not None:
                    found.setdefault(key, {})[queue_id] = begin
        return found

    def _ends(self, topics: Iterable[str]) -> Reading[dict[str, dict[int, int]]]:
        """Return the ends of all queues of topics, as far as these exist."""
        store = self._store
        found: dict[str, dict[int, int]] = {}
        count = 0
        for topic in topics:
            if (config := self._topics.find(topic)) is None:
                continue
            of_topic = found[topic] = {}
            for queue_id in range(max(config.read_queue_count, config.write_queue_count)):
                count += 1
                if count % TURN_MAX == 0:
                    yield PAUSE
                of_topic[queue_id] = store.max_queue_offset(topic, queue_id)
        return found

    def _targets(
        self, header: ResetOffsetHeader, queue_ids: Sequence[int]
    ) -> Reading[dict[MessageQueue, int]]:
        """Find the new offset of each queue. Raises Refused for an offset outside its queue."""
        store, topic = self._store, header.topic
        targets: dict[MessageQueue, int] = {}
        for queue_id in queue_ids:
            if len(targets) % SEARCHED_MAX == SEARCHED_MAX - 1:
                yield PAUSE
            low, high = store.ends_of(topic, queue_id)
            if header.queue_id >= 0 and header.offset is not None and header.offset != -1:
                offset = header.offset
            elif header.time < 0:
                offset = high
            else:
                offset = yield from store.readings.offset_by_time(topic, queue_id, header.time)
            if not low <= offset <= high:
                raise Refused(
                    ResponseCode.SYSTEM_ERROR,
                    f"Target offset {offset} not in consume queue range [{low}-{high}]",
                )
            targets[MessageQueue(topic, self._broker_name, queue_id)] = offset
        return targets
