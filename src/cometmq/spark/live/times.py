"""Store times of queues in ``startingOffsetsByTimestamp`` and ``endingOffsetsByTimestamp``.

::

    {"orders": {"0": 1700000000000, "1": "2026-01-31T09:00:00+08:00"}}
    {"orders": {"broker-a": {"0": 1700000000000}, "broker-b": {"0": 1700000060000}}}

The first form is that of Spark's Kafka source: a time applies to the queue with this id on each broker that
has the topic. The second names brokers. Times are ms since the epoch, or ISO 8601 with a zone.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from cometmq.errors import SettingsError
from cometmq.message import MessageQueue
from cometmq.spark import values
from cometmq.spark.live.offsets import EACH_BROKER, Offsets


class TimestampStrategy(StrEnum):
    """What happens if a queue has no message stored at or after its starting time."""

    ERROR = "error"
    LATEST = "latest"


def read(name: str, tree: Any) -> dict[MessageQueue, int]:
    """Convert an option's JSON to times by queue, ms since the epoch.

    A queue with the broker ``EACH_BROKER`` stands for the queues with its id on all brokers.
    Raises SettingsError, with the right form, if malformed.
    """
    times: dict[MessageQueue, int] = {}
    for topic, below in _items(name, tree):
        for key, value in _items(name, below):
            by_queue = {key: value} if not isinstance(value, dict) else value
            broker_name = key if isinstance(value, dict) else EACH_BROKER
            for queue_id, time in by_queue.items():
                times[MessageQueue(topic, broker_name, _queue_id(name, queue_id))] = _time_ms(name, time)
    if not times:
        raise _refused(name, tree)
    return times


def of_queues(
    times: Mapping[MessageQueue, int], queues: Iterable[MessageQueue], option: str
) -> dict[MessageQueue, int]:
    """Return the time of each queue; a time for a named broker has precedence over one for each broker.

    Raises SettingsError, naming ``option``, if a queue has no time, or a time has no queue.
    """
    found: dict[MessageQueue, int] = {}
    missing, unknown = [], set(times)
    for queue in sorted(queues):
        of_each = queue._replace(broker_name=EACH_BROKER)
        unknown -= {queue, of_each}
        if (time_ms := times.get(queue, times.get(of_each))) is None:
            missing.append(queue)
        else:
            found[queue] = time_ms
    if missing or unknown:
        wrong = [f"{_named(queue)} is left out" for queue in missing]
        wrong += [f"{_named(queue)} is not there" for queue in sorted(unknown)]
        raise SettingsError(
            f"option {option} must name each queue that is read, and no other: {'; '.join(wrong)}"
        )
    return found


def strategy(name: str, text: str) -> TimestampStrategy:
    """Parse a strategy."""
    try:
        return TimestampStrategy(text.lower())
    except ValueError:
        raise SettingsError(f"option {name} {text}: give {' or '.join(TimestampStrategy)}") from None


def refuse_late(option: str, times: Mapping[MessageQueue, int], ends: Offsets) -> None:
    """Raise SettingsError that names queues without a message stored at or after their time."""
    named = "; ".join(
        f"{_named(queue)}: {times[queue]} is asked for, it ends at offset {end}"
        for queue, end in ends.items()
    )
    raise SettingsError(
        f"option {option}: no message was stored so late: {named}: give an earlier time, or "
        "startingOffsetsByTimestampStrategy latest to begin at the end"
    )


def _named(queue: MessageQueue) -> str:
    """Return a queue as text: topic, broker if it has one, queue id."""
    return " ".join(str(part) for part in queue if part != EACH_BROKER)


def _items(name: str, value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise _refused(name, value)
    return list(value.items())


def _queue_id(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise _refused(name, text)
    return int(text)


def _time_ms(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise _refused(name, value)
    return values.time_ms(name, str(value))


def _refused(name: str, value: Any) -> SettingsError:
    return SettingsError(
        f'option {name}: {value!r} is malformed: write times by topic and queue, as {{"orders": {{"0": '
        '1700000000000}}, or by topic, broker and queue, as {"orders": {"broker-a": {"0": 1700000000000}}}'
    )
