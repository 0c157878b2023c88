"""A clock that runs like the machine's, and that a test can advance or set wrong."""

from collections.abc import Callable

from cometmq.arguments import NUMBER, check
from cometmq.errors import IllegalArgument
from cometmq.io.clock import SystemClock


class MovableClock:
    """The machine's time plus what tests have added to it.

    Args:
        on_move: called after each move, to do what has become due.
    """

    def __init__(self, on_move: Callable[[], object] = lambda: None) -> None:
        self._on_move = on_move
        self._machine = SystemClock()
        self._ahead_ms = 0
        self._wall_ahead_ms = 0

    def now_ms(self) -> int:
        """Return the wall-clock time, ms since the epoch."""
        return self._machine.now_ms() + self._ahead_ms + self._wall_ahead_ms

    def monotonic_ms(self) -> int:
        """Return the monotonic time in ms."""
        return self._machine.monotonic_ms() + self._ahead_ms

    def shift_wall(self, seconds: float) -> None:
        """Set the wall clock ahead by ``seconds``, or back if that is negative; no time passes."""
        check(NUMBER, seconds=seconds)
        self._wall_ahead_ms += round(seconds * 1000)
        self._on_move()

    def advance(self, seconds: float) -> None:
        """Advance both clocks by ``seconds``; on return, delayed messages and retries that are due are there.

        Timed messages, and popped ones that nobody acknowledged, follow within a second or two.
        """
        check(NUMBER, seconds=seconds)
        if seconds < 0:
            raise IllegalArgument(f"advance by {seconds} s: time does not go back")
        self._ahead_ms += round(seconds * 1000)
        self._on_move()
