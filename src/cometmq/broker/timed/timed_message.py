"""How a timed message waits: in the timer topic, with its time and the topic it is for among its properties.

It asks for seconds or milliseconds from now, or for a time. That is rounded down, to a second unless
``timerPrecisionMs`` says otherwise. What comes out again keeps the properties that it waited with, as
RocketMQ's does. (RocketMQ: HookUtils.java, TimerMessageStore.java.)
"""

from contextlib import suppress
from typing import Final

from cometmq.broker.refused import Refused
from cometmq.broker.state.topics import TIMER_TOPIC
from cometmq.broker.timed.delayed import due
from cometmq.errors import MessageIllegal
from cometmq.format import properties
from cometmq.format.properties import (
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
from cometmq.format.property_numbers import number
from cometmq.format.record import Record, size_of
from cometmq.format.timer.log import ROLL, Unit
from cometmq.store.append import NewMessage, once_more
from cometmq.store.settings import StoreSettings
from cometmq.store.timer.timer import Timed
from cometmq.wire.codes import ResponseCode

QUEUE_ID: Final = 0
"""Of the timer topic."""
ADDED_SIZE: Final = 100
"""So many bytes of properties are added while a message waits, or less."""


def timed(message: NewMessage, settings: StoreSettings, now: int) -> NewMessage:
    """Give the message as it waits; itself if it asks for no time, or for one that has passed.

    Args:
        now: ms since the epoch.

    Raises MessageIllegal, or Refused if the broker takes no timed messages.
    """
    named = properties.decode(message.properties)
    name = next((name for name in TIMER_ASKS if name in named), None)
    if name is None or TIMER_OUT_MS in named:
        return message
    if not settings.timer_wheel_enable:
        raise Refused(ResponseCode.SYSTEM_ERROR, "this broker takes no timed messages: see timerWheelEnable")
    time = _time(name, named[name], now)
    if time <= now:
        if TIMER_DEL_UNIQKEY in named:
            raise MessageIllegal(
                f"property {name} = {named[name]}: the message to be taken back is due by now"
            )
        return message
    if time - now > settings.timer_max_delay_sec * 1000:
        raise MessageIllegal(
            f"property {name} = {named[name]}: a message may wait for {settings.timer_max_delay_sec} s "
            "(timerMaxDelaySec)"
        )
    precision_ms = settings.timer_precision_ms
    out_ms = (time - 1) // precision_ms * precision_ms
    named |= {TIMER_OUT_MS: str(out_ms), REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(message.queue_id)}
    data = properties.encode(named)
    if len(data) > properties.MAX_LENGTH - ADDED_SIZE:
        raise MessageIllegal(
            f"the properties have {len(data)} bytes: of a timed message they may have "
            f"{properties.MAX_LENGTH - ADDED_SIZE}"
        )
    return message._replace(topic=TIMER_TOPIC, queue_id=QUEUE_ID, properties=data)


def facts(waiting: Record) -> Timed:
    """Give what the timer must know of a message that waits; one that does not say its time is due."""
    named = properties.decode(waiting.properties)
    time = named.get(TIMER_OUT_MS, "")
    return Timed(
        int(time) if time.isdecimal() else 0,
        waiting.physical_offset,
        size_of(waiting),
        named.get(REAL_TOPIC, ""),
        TIMER_DEL_UNIQKEY in named,
    )


def given_out(waiting: Record, unit: Unit, now: int) -> NewMessage | None:
    """Give a message whose slot's time has passed: for its consumers, or to wait on.

    None if it does not say for whom it is. Raises MessageIllegal if what it says makes no sense.
    """
    message = once_more(waiting) if unit.magic & ROLL else due(waiting)
    if message is None:
        return None
    named = properties.decode(waiting.properties)
    named |= {TIMER_ENQUEUE_MS: str(unit.write_time), TIMER_DEQUEUE_MS: str(now)}
    if unit.magic & ROLL:
        times = named.get(TIMER_ROLL_TIMES, "0")
        named[TIMER_ROLL_TIMES] = str(int(times) + 1) if times.isdecimal() else "1"
    with suppress(MessageIllegal):  # one that came in elsewhere may have no room for them
        message = message._replace(properties=properties.encode(named))
    return message


def takes_back(waiting: Record) -> frozenset[str]:
    """Return what the message that a message takes back may be named: see ``name_of``.

    RocketMQ 5.3.2 and 5.3.3 write its topic, a plus and its unique key, those before them the unique key
    alone; 5.5 that, or with ``appendTopicForTimerDeleteKey`` the first. A store may come from any of them. A
    unique key alone is of the topic of who takes back: in another topic there may be the same.
    """
    named = properties.decode(waiting.properties)
    name = named.get(TIMER_DEL_UNIQKEY)
    return frozenset() if name is None else frozenset({name, _name(named.get(REAL_TOPIC), name)})


def taking_back(topic: str, unique_key: str, settings: StoreSettings) -> str:
    """Return how this broker writes which message is taken back: see ``takes_back``."""
    return _name(topic, unique_key) if settings.append_topic_for_timer_delete_key else unique_key


def name_of(waiting: Record) -> str | None:
    """Return how a message is named by one that takes it back; None if it has no unique key."""
    named = properties.decode(waiting.properties)
    key = named.get(UNIQ_KEY)
    return None if key is None else _name(named.get(REAL_TOPIC), key)


def _name(topic: str | None, unique_key: str) -> str:
    return f"{topic}+{unique_key}"


def _time(name: str, value: str, now: int) -> int:
    """Give the time that is asked for, ms since the epoch. Raises MessageIllegal."""
    asked = number(name, value)
    if name == TIMER_DELIVER_MS:
        return asked
    return now + asked * (1000 if name == TIMER_DELAY_SEC else 1)
