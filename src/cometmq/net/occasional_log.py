"""Log events that peers can cause as often as they like: the first at once, later ones by their number."""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

LOG_INTERVAL_S: Final = 5.0


class OccasionalLog:
    """Counts events, and logs their number at most every ``LOG_INTERVAL_S``.

    Args:
        log: called with the number of events since it was last called.
    """

    def __init__(self, log: Callable[[int], None]) -> None:
        self._log = log
        self._unlogged = 0
        self._timer: asyncio.TimerHandle | None = None

    def add(self) -> None:
        """Count an event."""
        self._unlogged += 1
        if self._timer is None:
            self._write()

    def close(self) -> None:
        """Log what is counted, and stop."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._unlogged:
            self._log(self._unlogged)
            self._unlogged = 0

    def _write(self) -> None:
        """Log the events since the last time; repeat later if there are more."""
        self._timer = None
        if self._unlogged:
            self._log(self._unlogged)
            self._unlogged = 0
            self._timer = asyncio.get_running_loop().call_later(LOG_INTERVAL_S, self._write)


class PeerLog:
    """Logs what peers do: the first at once, and then now and then the last of them with their number.

    Args:
        log: the module's.
        level: of its lines.
        text: has places for the peer and the reason.
    """

    def __init__(self, log: logging.Logger, level: int, text: str) -> None:
        self._logger = log
        self._level = level
        self._text = text + "%s"
        self._last = ("", "")
        self._log = OccasionalLog(self._write)

    def add(self, peer: object, reason: object) -> None:
        """Count what a peer does, and log it soon."""
        self._last = str(peer), str(reason)
        self._log.add()

    def close(self) -> None:
        """Log what is counted, and stop."""
        self._log.close()

    def _write(self, count: int) -> None:
        more = f" ({count} such since the last line)" if count > 1 else ""
        self._logger.log(self._level, self._text, *self._last, more)
