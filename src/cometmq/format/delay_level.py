"""Delay levels: the fixed delays that a message's DELAY property chooses from, counted from 1.

The broker setting ``messageDelayLevel`` lists them: numbers with a unit, between single blanks.

The time at which a message is due is computed once, when it is stored, and written to its queue entry.
Delivery goes by the entry. The setting may have changed since, so recovery checks an entry only against the
store time of its record (``may_be_due``).

Source: RocketMQ: ScheduleMessageService.java (parseDelayLevel, computeDeliverTimestamp).
"""

import re
from typing import Any, Final, NamedTuple

from cometmq.errors import SettingsError
from cometmq.format.java.java_numbers import NoNumber, to_integer

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""The topic in which delayed messages wait: those of level n in queue n − 1."""
DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

LEVEL_MAX: Final = len(DEFAULT_LEVELS.split(" "))
"""The highest of the default levels."""

DELAY_MS_MAX: Final = 3650 * 86_400_000
"""Longest delay of a level: ten years."""

_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NUMBER: Final = re.compile(r"\+?[0-9]+")
_LEVEL: Final = re.compile(r"(\d{1,9})([smhd])", re.ASCII)


class DelayLevels(NamedTuple):
    """The delay of each level in ms: ``delays_ms[0]`` is that of level 1."""

    delays_ms: tuple[int, ...]

    @classmethod
    def parse(cls, text: str = DEFAULT_LEVELS) -> "DelayLevels":
        """Parse the setting ``messageDelayLevel``.

        Raises:
            SettingsError: a part is not a number with one of the units s, m, h, d.
        """
        return cls(tuple(_delay_ms(part, text) for part in text.split(" ")))

    @property
    def max_level(self) -> int:
        """The highest level; messages that ask for a higher one get this one."""
        return len(self.delays_ms)

    def level(self, delay: str) -> int:
        """Return the level that a stored DELAY property chooses; 0 if it is not a number above 0.

        Java also reads digits of other scripts; a broker stores the chosen level in ASCII digits.
        """
        if not _NUMBER.fullmatch(delay):
            return 0
        try:
            return self.nearest(to_integer(delay))
        except NoNumber:  # too large for Java
            return 0

    def nearest(self, number: int) -> int:
        """Return the level that a number chooses: at most the highest one, 0 for none."""
        return min(max(number, 0), self.max_level)

    def deliver_time(self, level: int, store_time: int) -> int:
        """Return when a message of ``level`` stored at ``store_time`` is due, ms since the epoch."""
        return store_time + self.delays_ms[level - 1]


def may_be_due(due: Any, store_time: Any) -> Any:
    """Check whether a delayed message stored at ``store_time`` can be due at ``due``.

    Both are ms since the epoch: ints, or int64 arrays of one shape, for which an array of bools is returned.
    Each level's delay is a whole number of seconds, so a time with one flipped bit never passes.
    """
    delay_ms = due - store_time
    return (delay_ms >= 0) & (delay_ms <= DELAY_MS_MAX) & (delay_ms % 1000 == 0)


def _delay_ms(part: str, text: str) -> int:
    match = _LEVEL.fullmatch(part)
    if match is None:
        raise SettingsError(
            f"messageDelayLevel {text!r}: {part!r} is not a delay; write numbers with s, m, h or d between"
            " single blanks, such as '1s 5s 2h'"
        )
    number, unit = match.groups()
    delay_ms = int(number) * _UNIT_MS[unit]
    if delay_ms > DELAY_MS_MAX:
        raise SettingsError(f"messageDelayLevel {text!r}: {part!r} is too long: give at most 3650d")
    return delay_ms
