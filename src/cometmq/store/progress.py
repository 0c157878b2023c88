"""Progress of long work: silent for two seconds, then a line each second."""

from collections.abc import Callable
from typing import Final

from cometmq.io.clock import Clock

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in total."""

SILENT_MS: Final = 2_000
"""Time before the first line."""
EVERY_MS: Final = 1_000


class ProgressLines:
    """Progress as lines: ``recovering: 43 % of 1,229 MiB, 00:03``.

    Args:
        title: name of the work.
        write: called with each line.
    """

    def __init__(self, title: str, write: Callable[[str], object], clock: Clock) -> None:
        self._title = title
        self._write = write
        self._clock = clock
        self._begin_ms = clock.monotonic_ms()
        self._next_ms = self._begin_ms + SILENT_MS

    def __call__(self, done: int, total: int) -> None:
        """Write a line if it is time for one."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_ms:
            return
        self._next_ms = now_ms + EVERY_MS
        percent = min(done * 100 // max(total, 1), 100)
        elapsed = elapsed_text(now_ms - self._begin_ms)
        self._write(f"{self._title}: {percent} % of {total >> 20:,} MiB, {elapsed}")


def elapsed_text(elapsed_ms: int) -> str:
    """Return a duration in minutes and seconds: ``02:05``."""
    minutes, seconds = divmod(elapsed_ms // 1_000, 60)
    return f"{minutes:02d}:{seconds:02d}"
