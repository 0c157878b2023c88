"""How a message that asks for a delay or a time is stored until it is due, and how it is delivered then.

A message with a delay level waits in the schedule topic, that of level n in queue n - 1. One that asks for
seconds or milliseconds from now, or for a time, waits in the timer topic; its time is rounded down, to a
second unless ``timerPrecisionMs`` says otherwise. The topic and queue that a message is for are among its
properties meanwhile; the delivered message keeps these properties, as RocketMQ's does.
(RocketMQ: HookUtils.java, ScheduleMessageService.java, TimerMessageStore.java.)
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from cometmq.broker.refused import Refused
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.delay_level import SCHEDULE_TOPIC, DelayLevels
from cometmq.format.properties import (
    DELAY,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TIMER_ASKS,
    TIMER_DEL_UNIQKEY,
    TIMER_DELAY_SEC,
    TIMER_DELIVER_MS,
    TIMER_DEQUEUE_MS,
    TIMER_ENQUEUE_MS,
    TIMER_OUT_MS,
    TIMER_ROLL_TIMES,
    UNIQ_KEY,
)
from cometmq.format.property_numbers import number, number_or
from cometmq.format.record import Record, read_head
from cometmq.format.timer.log import ROLL, TIMER_TOPIC, Unit
from cometmq.io.clock import Clock
from cometmq.message import Buffer
from cometmq.store.append import NewMessage, once_more
from cometmq.store.settings import StoreSettings
from cometmq.store.timer.timer import Timed
from cometmq.wire.codes import ResponseCode

QUEUE_ID: Final = 0
"""Of the timer topic."""
ADDED_SIZE: Final = 100
"""Most bytes of properties that are added while a timed message waits."""

_TIMED: Final = properties.text_of({TIMER_OUT_MS: "%d", REAL_TOPIC: "%s", REAL_QUEUE_ID: "%d"})


class WaitingPlace(NamedTuple):
    """Where a message is stored until it is due, and the properties that are added to its own."""

    topic: str
    queue_id: int
    added: str


class Delays:
    """Turns a message that asks for a delay or a time into the one that is stored until it is due.

    Attributes:
        levels: the broker's delay levels.
    """

    def __init__(self, settings: StoreSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self.levels = DelayLevels.parse(settings.message_delay_level)

    def waiting(self, message: NewMessage) -> NewMessage:
        """Return the message to store until ``message`` is due; ``message`` itself if it is due now.

        Raises MessageIllegal, or Refused if the broker takes no timed messages.
        """
        by_level = delayed(message, self.levels)
        return timed(message, self._settings, self._clock.now_ms()) if by_level is message else by_level

    def can_wait(self, time_ms: int) -> bool:
        """Check whether a message can wait until a time, ms since the epoch."""
        settings = self._settings
        wait_ms = time_ms - self._clock.now_ms()
        return settings.timer_wheel_enable and wait_ms <= settings.timer_max_delay_sec * 1000

    def waits(self, time_ms: int, now_ms: int) -> bool:
        """Return whether a message waits that asks for a time by TIMER_DELIVER_MS; else it is due by now.

        Raises MessageIllegal, or Refused if the broker takes no timed messages.
        """
        _check_enabled(self._settings)
        if time_ms <= now_ms:
            return False
        _check_wait(TIMER_DELIVER_MS, time_ms, time_ms - now_ms, self._settings)
        return True

    def place(self, topic: str, queue_id: int, time_ms: int) -> WaitingPlace:
        """Return where a message for this topic and queue waits until a time, ms since the epoch.

        ``waits`` and this do what ``waiting`` does, in a fraction of the time, for the broker's own messages.
        """
        added = _TIMED % (_out_ms(time_ms, self._settings), topic, queue_id)
        return WaitingPlace(TIMER_TOPIC, QUEUE_ID, added)


def delayed(message: NewMessage, levels: DelayLevels) -> NewMessage:
    """Return the message for the schedule topic; ``message`` itself if it has no delay level.

    Raises MessageIllegal if its properties get too long.
    """
    named = properties.decode(message.properties)
    level = levels.nearest(number_or(DELAY, named.get(DELAY), 0))
    if not level:
        return message
    for name in TIMER_ASKS:  # a level has priority
        named.pop(name, None)
    named |= {DELAY: str(level), REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(message.queue_id)}
    return message._replace(topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=properties.encode(named))


def timed(message: NewMessage, settings: StoreSettings, now: int) -> NewMessage:
    """Return the message for the timer topic; ``message`` itself if it asks for no time, or a past one.

    Args:
        now: ms since the epoch.

    Raises MessageIllegal, or Refused if the broker takes no timed messages.
    """
    named = properties.decode(message.properties)
    name = next((name for name in TIMER_ASKS if name in named), None)
    if name is None or TIMER_OUT_MS in named:
        return message
    _check_enabled(settings)
    time = _deliver_time(name, named[name], now)
    if time <= now:
        if TIMER_DEL_UNIQKEY in named:
            raise MessageIllegal(f"property {name} = {named[name]}: the message to be recalled is due by now")
        return message
    _check_wait(name, named[name], time - now, settings)
    out_ms = str(_out_ms(time, settings))
    named |= {TIMER_OUT_MS: out_ms, REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(message.queue_id)}
    data = properties.encode(named)
    if len(data) > properties.MAX_LENGTH - ADDED_SIZE:
        raise MessageIllegal(
            f"the properties have {len(data)} bytes: of a timed message they may have "
            f"{properties.MAX_LENGTH - ADDED_SIZE}"
        )
    return message._replace(topic=TIMER_TOPIC, queue_id=QUEUE_ID, properties=data)


def _check_enabled(settings: StoreSettings) -> None:
    if not settings.timer_wheel_enable:
        raise Refused(ResponseCode.SYSTEM_ERROR, "this broker takes no timed messages: see timerWheelEnable")


def _check_wait(name: str, value: object, wait_ms: int, settings: StoreSettings) -> None:
    """Check that a message may wait for so long. Raises MessageIllegal."""
    if wait_ms > settings.timer_max_delay_sec * 1000:
        raise MessageIllegal(
            f"property {name} = {value}: a message may wait for {settings.timer_max_delay_sec} s "
            "(timerMaxDelaySec)"
        )


def _out_ms(time_ms: int, settings: StoreSettings) -> int:
    """Return the slot of a time: rounded down, to a second by default."""
    precision_ms = settings.timer_precision_ms
    return (time_ms - 1) // precision_ms * precision_ms


def due(record: Record) -> NewMessage | None:
    """Return the message for its own topic and queue; None if its properties do not name them.

    Raises MessageIllegal if the queue id is no number.
    """
    return _due(record, properties.decode(record.properties))


def _due(record: Record, named: Mapping[str, str]) -> NewMessage | None:
    topic, queue_id = named.get(REAL_TOPIC), named.get(REAL_QUEUE_ID)
    if topic is None or queue_id is None:
        return None
    if not queue_id.isdecimal():
        raise MessageIllegal(f"property {REAL_QUEUE_ID} = {queue_id[:20]!r} is no queue")
    return once_more(record, named)._replace(topic=topic, queue_id=int(queue_id))


def timer_due(waiting: Record, unit: Unit, now: int) -> NewMessage | None:
    """Return the message to append when the time of a unit's slot has passed: see ``due``.

    A unit that is to roll goes back to the timer topic.
    """
    named = properties.decode(waiting.properties)
    message = once_more(waiting, named) if unit.magic & ROLL else _due(waiting, named)
    if message is None:
        return None
    named |= {TIMER_ENQUEUE_MS: str(unit.write_time), TIMER_DEQUEUE_MS: str(now)}
    if unit.magic & ROLL:
        times = named.get(TIMER_ROLL_TIMES, "0")
        named[TIMER_ROLL_TIMES] = str(int(times) + 1) if times.isdecimal() else "1"
    with suppress(MessageIllegal):  # one that another broker stored may have no room for them
        message = message._replace(properties=properties.encode(named))
    return message


def timer_entry(waiting: Buffer) -> Timed:
    """Return the timer's entry of a timed message's record; it is due at once if its properties name no time.

    Raises DamagedRecord.
    """
    head = read_head(waiting, 0)
    named = bytes(waiting[head.properties_position :])
    time = properties.value_of(named, TIMER_OUT_MS) or ""
    return Timed(
        int(time) if time.isdecimal() else 0,
        head.physical_offset,
        head.size,
        properties.value_of(named, REAL_TOPIC) or "",
        properties.value_of(named, TIMER_DEL_UNIQKEY) is not None,
    )


def recalled_by(waiting: Record) -> frozenset[str]:
    """Return the names that the message recalled by this one may have: see ``recall_name``.

    RocketMQ 5.3.2 and 5.3.3 write its topic, a plus and its unique key, those before them the unique key
    alone; 5.5 that, or with ``appendTopicForTimerDeleteKey`` the first. A store may come from any of them. In
    any case the topic is the recalling message's: another topic may have the same key, and be another's.
    """
    named = properties.decode(waiting.properties)
    topic, name = named.get(REAL_TOPIC), named.get(TIMER_DEL_UNIQKEY)
    if name is None:
        return frozenset()
    names = {name, _name(topic, name)}
    return frozenset(one for one in names if one.startswith(_name(topic, "")))


def recall_property(topic: str, unique_key: str, settings: StoreSettings) -> str:
    """Return the value of TIMER_DEL_UNIQKEY by which this broker recalls a message: see ``recalled_by``."""
    return _name(topic, unique_key) if settings.append_topic_for_timer_delete_key else unique_key


def recall_name(waiting: Record) -> str | None:
    """Return the name by which a timed message is recalled; None if it has no unique key."""
    named = properties.decode(waiting.properties)
    key = named.get(UNIQ_KEY)
    return None if key is None else _name(named.get(REAL_TOPIC), key)


def _name(topic: str | None, unique_key: str) -> str:
    return f"{topic}+{unique_key}"


def _deliver_time(name: str, value: str, now: int) -> int:
    """Return the time, ms since the epoch, that a property asks for. Raises MessageIllegal."""
    asked = number(name, value)
    if name == TIMER_DELIVER_MS:
        return asked
    return now + asked * (1000 if name == TIMER_DELAY_SEC else 1)
