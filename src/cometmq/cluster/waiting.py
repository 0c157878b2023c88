"""Which messages wait on a broker, and when they are due: what the records of the broker's own topics say.

========= ============================================== ==================================================
Kind      Where it waits                                 When it is due
========= ============================================== ==================================================
delayed   schedule topic, behind its level's offset      store time plus the level's delay: it is delivered
timed     timer topic, with a time in the future         that time: it is delivered
popped    timer topic, as an offset of a check point     when it is no longer invisible: it is handed out
          that no acknowledgement names                  again
half      half topic, not named by an op message         when its producer may be asked for the state of
                                                         its transaction
========= ============================================== ==================================================

The record of a message that has waited longer than the timer's wheel holds is appended again, with the same
unique key: the later one counts.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Final, NamedTuple

from cometmq.errors import FormatError
from cometmq.format import properties
from cometmq.format.delay_level import DelayLevels
from cometmq.format.pop import check_point
from cometmq.format.pop.names import REVIVE_PREFIX, normal_topic
from cometmq.message import StoredMessage

SPANS_MS: Final = {"now": 0, "1m": 60_000, "10m": 600_000, "1h": 3_600_000, "1d": 86_400_000}
"""By name, the spans of time within which messages are due, in ms from now; each begins at the one before."""
DIGITS_MAX: Final = 19
"""Most digits of a number of 64 bits."""
LATER: Final = "later"
"""The name of the span behind the last one of ``SPANS_MS``."""


class WaitingKind(StrEnum):
    """What a message waits for."""

    DELAYED = "delayed"
    TIMED = "timed"
    POPPED = "popped"
    HALF = "half"


class WaitingMessages(NamedTuple):
    """Messages that are due at the same time, ms since the epoch.

    Attributes:
        topic: where they are for.
        group: the consumers that hold popped ones, or the producers of half ones; else empty.
    """

    kind: WaitingKind
    topic: str
    group: str
    due_ms: int
    message_count: int = 1


class WaitingLine(NamedTuple):
    """The messages of one kind, topic and group.

    Attributes:
        first_due_ms, last_due_ms: ms since the epoch.
        due: how many are due within each span: see ``SPANS_MS`` and ``LATER``.
    """

    kind: WaitingKind
    topic: str
    group: str
    message_count: int
    first_due_ms: int
    last_due_ms: int
    due: dict[str, int]


def delayed_message(message: StoredMessage, levels: DelayLevels) -> WaitingMessages:
    """Return what a message of the schedule topic waits for; one of a level that is gone is due at once."""
    level = message.queue_id + 1
    due_ms = message.store_time
    if level <= levels.max_level:
        due_ms = levels.deliver_time(level, due_ms)
    return WaitingMessages(WaitingKind.DELAYED, _topic(message.properties), "", due_ms)


def half_message(message: StoredMessage, timeout_ms: int) -> WaitingMessages:
    """Return what a half message waits for.

    Args:
        timeout_ms: how long its producer is left in peace, unless the message says otherwise.
    """
    named = message.properties
    seconds = _number(named, properties.CHECK_IMMUNITY_TIME)
    immune_ms = timeout_ms if seconds is None else seconds * 1000
    group = named.get(properties.PRODUCER_GROUP, "")
    return WaitingMessages(WaitingKind.HALF, _topic(named), group, message.born_time + immune_ms)


class TimerTopic:
    """The timer topic, read in the order of its records.

    Args:
        reached_ms: what is due by then has been delivered, ms since the epoch.
    """

    def __init__(self, reached_ms: int) -> None:
        self._reached_ms = reached_ms
        self._timed: dict[tuple[str, str], WaitingMessages] = {}
        self._popped: dict[check_point.PopKey, tuple[check_point.CheckPoint, set[int]]] = {}

    def add(self, message: StoredMessage) -> None:
        """Add the next record. Check points and acknowledgements that cannot be decoded are skipped."""
        named = message.properties
        topic = _topic(named)
        if topic.startswith(REVIVE_PREFIX):
            with suppress(FormatError):
                self._add_popped(message)
        elif (recalled := named.get(properties.TIMER_DEL_UNIQKEY)) is not None:
            self._timed.pop((topic, recalled.removeprefix(f"{topic}+")), None)
        elif (due_ms := _number(named, properties.TIMER_OUT_MS) or 0) > self._reached_ms:
            self._timed[topic, message.message_id] = WaitingMessages(WaitingKind.TIMED, topic, "", due_ms)

    def waiting(self) -> list[WaitingMessages]:
        """Return what waits, as far as it is read."""
        held = [
            WaitingMessages(
                kind=WaitingKind.POPPED,
                topic=normal_topic(point.topic, point.group),
                group=point.group,
                due_ms=point.revive_time_ms,
                message_count=len(left),
            )
            for point, left in self._popped.values()
            if left
        ]
        return [*self._timed.values(), *held]

    def _add_popped(self, message: StoredMessage) -> None:
        if message.tags == check_point.CHECK_POINT_TAG:
            point = check_point.decode_check_point(message.body)
            if point.revive_time_ms > self._reached_ms:
                self._popped[point.key] = point, set(point.offsets)
        elif message.tags in (check_point.ACK_TAG, check_point.BATCH_ACK_TAG):
            ack = check_point.decode_ack(message.body)
            if (held := self._popped.get(ack.key)) is not None:
                held[1].difference_update(ack.offsets)


def waiting_lines(waiting: Iterable[WaitingMessages], now_ms: int) -> list[WaitingLine]:
    """Sum up messages by kind, topic and group, in this order."""
    lines: dict[tuple[WaitingKind, str, str], WaitingLine] = {}
    for one in waiting:
        key = one[:3]
        line = lines.get(key)
        if line is None:
            line = WaitingLine(*key, 0, one.due_ms, one.due_ms, dict.fromkeys((*SPANS_MS, LATER), 0))
        line.due[_span(one.due_ms - now_ms)] += one.message_count
        lines[key] = line._replace(
            message_count=line.message_count + one.message_count,
            first_due_ms=min(line.first_due_ms, one.due_ms),
            last_due_ms=max(line.last_due_ms, one.due_ms),
        )
    order = list(WaitingKind)
    return sorted(lines.values(), key=lambda line: (order.index(line.kind), line.topic, line.group))


def _span(left_ms: int) -> str:
    return next((name for name, end_ms in SPANS_MS.items() if left_ms <= end_ms), LATER)


def _topic(named: Mapping[str, str]) -> str:
    return named.get(properties.REAL_TOPIC, "")


def _number(named: Mapping[str, str], name: str) -> int | None:
    """Return the number in a property; None if it is none, or larger than any that Java knows."""
    value = named.get(name, "")
    return int(value) if value.isdecimal() and len(value) <= DIGITS_MAX else None
