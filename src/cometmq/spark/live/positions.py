"""The positions in queues at which a read begins and ends, by its options."""

from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from cometmq.errors import SettingsError
from cometmq.message import MessageQueue
from cometmq.spark import values
from cometmq.spark.live import offsets, times
from cometmq.spark.live.offsets import Offsets
from cometmq.spark.live.times import TimestampStrategy
from cometmq.spark.values import OptionTexts

GROUP_PREFIX: Final = "group:"


@dataclass(frozen=True)
class Earliest:
    """The first message of each queue that can be read."""


@dataclass(frozen=True)
class Latest:
    """The end of each queue."""


class Committed(NamedTuple):
    """The committed offset of a group; the first message of a queue without one."""

    group: str


class Since(NamedTuple):
    """Somewhat before the first message stored at or after a time, ms since the epoch.

    Attributes:
        needs_message: a queue that has no such message is an error.
    """

    time_ms: int
    needs_message: bool = False


class Until(NamedTuple):
    """Somewhat behind the last message stored at or before a time, ms since the epoch."""

    time_ms: int


class At(NamedTuple):
    """Queue offsets, one for each queue."""

    offsets: Offsets


class ByTime(NamedTuple):
    """The first message of each queue stored at or after the queue's time; the queue's end if it has none.

    Attributes:
        times: as ``times.read`` returns them.
        needs_message: a queue that has no such message is an error.
    """

    times: dict[MessageQueue, int]
    needs_message: bool = False


Position: TypeAlias = Earliest | Latest | Committed | Since | Until | At | ByTime
THE_END: Final[Position] = Latest()


def start(texts: OptionTexts, time_ms: int | None) -> Position | None:
    """Return where a read begins; None for the default of the kind of read.

    Args:
        time_ms: the option ``startingTimestamp``, ms since the epoch.
    """
    strategy = texts.read("startingOffsetsByTimestampStrategy", times.strategy, None)
    if time_ms is not None:
        return Since(time_ms, needs_message=strategy == TimestampStrategy.ERROR)
    queue_times = texts.read("startingOffsetsByTimestamp", _queue_times, None)
    if queue_times is not None:
        return ByTime(queue_times, needs_message=strategy != TimestampStrategy.LATEST)
    return texts.read("startingOffsets", _position, None)


def end(texts: OptionTexts, time_ms: int | None) -> Position:
    """Return where a batch ends.

    Args:
        time_ms: the option ``endingTimestamp``, ms since the epoch.
    """
    if time_ms is not None:
        return Until(time_ms)
    queue_times = texts.read("endingOffsetsByTimestamp", _queue_times, None)
    return texts.read("endingOffsets", _position, THE_END) if queue_times is None else ByTime(queue_times)


def _queue_times(name: str, text: str) -> dict[MessageQueue, int]:
    return times.read(name, values.json_tree(name, text))


def _position(name: str, text: str) -> Position:
    if text.lower() == "earliest":
        return Earliest()
    if text.lower() == "latest":
        return Latest()
    if text.startswith(GROUP_PREFIX):
        return Committed(values.group_name(name, text.removeprefix(GROUP_PREFIX)))
    if not text.startswith("{"):
        raise SettingsError(
            f"option {name} {text}: give earliest, latest, {GROUP_PREFIX}NAME, or offsets as JSON"
        )
    return At(offsets.read(f"option {name}", values.json_tree(name, text)))
