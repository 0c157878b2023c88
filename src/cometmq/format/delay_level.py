"""Delay levels: the fixed delays that a message's DELAY property chooses from, counted from 1.

The broker setting ``messageDelayLevel`` lists them: numbers with a unit, between single blanks.
Source: RocketMQ: ScheduleMessageService.java (parseDelayLevel, computeDeliverTimestamp).
"""

import re
from typing import Final, NamedTuple

from cometmq.errors import SettingsError
from cometmq.format.java_numbers import NoNumber, to_integer

SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
"""Where delayed messages wait: the messages of level n in queue n − 1."""
DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"

_UNIT_MS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_NUMBER: Final = re.compile(r"\+?[0-9]+")
_LEVEL: Final = re.compile(r"(\d{1,9})([smhd])", re.ASCII)


class DelayLevels(NamedTuple):
    """The delays by level, in ms: ``delays_ms[0]`` is that of level 1."""

    delays_ms: tuple[int, ...]

    @classmethod
    def parse(cls, text: str = DEFAULT_LEVELS) -> "DelayLevels":
        """Read ``messageDelayLevel``.

        Raises:
            SettingsError: a part is not a number with one of the units s, m, h, d.
        """
        return cls(tuple(_delay_ms(part, text) for part in text.split(" ")))

    @property
    def max_level(self) -> int:
        """The highest level; a message that asks for more gets this one."""
        return len(self.delays_ms)

    def level(self, delay: str) -> int:
        """Return the level that a stored DELAY property chooses: 0 for none, also if it is no number above 0.

        Java reads digits of other scripts, too; a broker stores those of the level that was chosen by them.
        """
        if not _NUMBER.fullmatch(delay):
            return 0
        try:
            return self.nearest(to_integer(delay))
        except NoNumber:  # too large for Java
            return 0

    def nearest(self, number: int) -> int:
        """Return the level that a number chooses: at most the highest, 0 for none."""
        return min(max(number, 0), self.max_level)

    def deliver_time(self, level: int, store_time: int) -> int:
        """Give when a message of ``level`` stored at ``store_time`` is due, ms since the epoch."""
        return store_time + self.delays_ms[level - 1]


def _delay_ms(part: str, text: str) -> int:
    match = _LEVEL.fullmatch(part)
    if match is None:
        raise SettingsError(
            f"messageDelayLevel {text!r}: {part!r} is no delay; write numbers with s, m, h or d between"
            " single blanks, such as '1s 5s 2h'"
        )
    number, unit = match.groups()
    return int(number) * _UNIT_MS[unit]
