"""Store times, one for each queue: what ``startingOffsetsByTimestamp`` and ``endingOffsetsByTimestamp`` take.

::

    {"orders": {"0": 1700000000000, "1": "2026-01-31T09:00:00+08:00"}}
    {"orders": {"broker-a": {"0": 1700000000000}, "broker-b": {"0": 1700000060000}}}

The first form is that of Spark's Kafka source: a time holds for the queue with this number on each broker
that has the topic. The second names brokers. Times are ms since the epoch, or ISO 8601 with a zone.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from cometmq.errors import SettingsError
from cometmq.message import MessageQueue
from cometmq.spark import values
from cometmq.spark.live.offsets import Offsets


class TimestampStrategy(StrEnum):
    """Where a read begins in a queue without a message stored at or after its starting time."""

    ERROR = "error"
    LATEST = "latest"


class QueueTimes(NamedTuple):
    """A store time for each queue, ms since the epoch.

    Attributes:
        by_queue: of one queue of one broker.
        by_number: of the queues with a number in a topic, on each broker.
    """

    by_queue: Mapping[MessageQueue, int]
    by_number: Mapping[tuple[str, int], int]

    def of(self, queues: Iterable[MessageQueue], option: str) -> dict[MessageQueue, int]:
        """Return the time of each queue.

        Raises SettingsError, naming ``option``, if a queue has none, or a time is of no queue.
        """
        read = set(queues)
        numbers = {(queue.topic, queue.queue_id) for queue in read}
        unknown = [*sorted(self.by_queue.keys() - read), *sorted(self.by_number.keys() - numbers)]
        found, missing = {}, []
        for queue in sorted(read):
            time_ms = self.by_queue.get(queue, self.by_number.get((queue.topic, queue.queue_id)))
            if time_ms is None:
                missing.append(queue)
            else:
                found[queue] = time_ms
        if missing or unknown:
            wrong = [f"{_named(queue)} is left out" for queue in missing]
            wrong += [f"{_named(place)} is not there" for place in unknown]
            raise SettingsError(
                f"option {option} must name each queue that is read, and no other: {'; '.join(wrong)}"
            )
        return found


def read(name: str, tree: Any) -> QueueTimes:
    """Read what an option's JSON says. Raises SettingsError that says how to write it."""
    by_queue: dict[MessageQueue, int] = {}
    by_number: dict[tuple[str, int], int] = {}
    for topic, below in _items(name, tree):
        for key, value in _items(name, below):
            if not isinstance(value, dict):
                by_number[topic, _queue_id(name, key)] = _time_ms(name, value)
                continue
            for queue_id, time in value.items():
                by_queue[MessageQueue(topic, key, _queue_id(name, queue_id))] = _time_ms(name, time)
    if not by_queue and not by_number:
        raise _refused(name, tree)
    return QueueTimes(by_queue, by_number)


def strategy(name: str, text: str) -> TimestampStrategy:
    """Read which strategy is wanted."""
    try:
        return TimestampStrategy(text.lower())
    except ValueError:
        raise SettingsError(f"option {name} {text}: give {' or '.join(TimestampStrategy)}") from None


def refuse_late(option: str, times: Mapping[MessageQueue, int], ends: Offsets) -> None:
    """Raise SettingsError: queues without a message stored at or after their time, by where they end."""
    named = "; ".join(
        f"{_named(queue)}: {times[queue]} is asked for, it ends at offset {end}"
        for queue, end in ends.items()
    )
    raise SettingsError(
        f"option {option}: no message was stored so late: {named}: give an earlier time, or "
        "startingOffsetsByTimestampStrategy latest to begin at the end"
    )


def _named(place: Iterable[str | int]) -> str:
    """Write down a queue: topic, broker if one is meant, number."""
    return " ".join(map(str, place))


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
        f'option {name}: {value!r} cannot be: write times by topic and queue, as {{"orders": {{"0": '
        '1700000000000}}, or by topic, broker and queue, as {"orders": {"broker-a": {"0": 1700000000000}}}'
    )
