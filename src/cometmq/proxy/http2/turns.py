"""Turns of the event loop: connections that send much share out the time of a turn.

What a connection sends is handled at once as long as little comes in a turn. One that sends more than a turn
handles has the rest handled in the next turns, with an equal share for each that waits; others are served in
between, as by a broker (``net/turn.py``)::

    frames of one turn   0 ──────────── turn_frames_max
                         handled at once └ wait for the next turn: turn_frames_max / connections that wait
"""

import asyncio
from typing import Final, Protocol

SHARE_MIN: Final = 8
"""Least share of a connection, with which it can begin a call."""


class TurnTaker(Protocol):
    """A connection of which frames wait."""

    def take_turn(self, share: int) -> None:
        """Handle so many of its frames."""
        ...


class Turns:
    """Decides how many frames of each connection are handled in the loop's present turn.

    Args:
        most: frames of all connections that a turn handles.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._left = most
        self._waiting: dict[TurnTaker, None] = {}
        self._is_scheduled = False

    def share_of(self, connection: TurnTaker) -> int:
        """Return how many frames of a connection may be handled now; for 0 its turn comes by itself."""
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)
        if self._waiting or self._left <= 0:
            self._waiting[connection] = None
            return 0
        return self._left

    def use(self, count: int) -> None:
        """Count frames that were handled."""
        self._left -= count

    def add(self, connection: TurnTaker) -> None:
        """Defer the rest of a connection's frames to the next turn."""
        self._waiting[connection] = None
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Begin a turn with those that wait."""
        self._is_scheduled = False
        self._left = self._most
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, {}
        share = max(self._most // len(waiting), SHARE_MIN)
        for connection in waiting:
            connection.take_turn(share)
