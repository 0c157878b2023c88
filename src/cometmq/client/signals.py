"""Stop consumers by the signals that end a program: SIGTERM, and SIGINT (Ctrl-C).

The first signal stops them gracefully. From then on the handlers from before are back, so that a second one
ends the program at once. Where the application handles a signal by itself, or none can be handled (another
thread than the main one, Windows), nothing is changed.
"""

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import FrameType
from typing import Any, Final

from cometmq.logs import get_logger

ENDING: Final = signal.SIGINT, signal.SIGTERM

_log = get_logger(__name__)

_SystemHandler = Callable[[int, FrameType | None], Any] | int | None


class _Signals:
    """The handlers that are installed in the main thread, and what they stop."""

    def __init__(self) -> None:
        self._stops: list[Callable[[], None]] = []
        self._before: dict[signal.Signals, _SystemHandler] = {}

    def add(self, stop: Callable[[], None]) -> None:
        """Register what a signal calls, too; the first one installs the handlers."""
        self._stops.append(stop)
        if len(self._stops) == 1:
            for one in ENDING:
                self._install(one)

    def remove(self, stop: Callable[[], None]) -> None:
        """Unregister what a signal calls; the last one restores the handlers."""
        self._stops.remove(stop)
        if not self._stops:
            self._restore()

    def _install(self, one: signal.Signals) -> None:
        before = signal.getsignal(one)
        if _is_default(before):
            with suppress(NotImplementedError):  # on Windows
                asyncio.get_running_loop().add_signal_handler(one, self._stop_all, one)
                self._before[one] = before

    def _restore(self) -> None:
        while self._before:
            one, before = self._before.popitem()
            asyncio.get_running_loop().remove_signal_handler(one)
            signal.signal(one, before)

    def _stop_all(self, one: signal.Signals) -> None:
        _log.info(
            "%s: stopping when the running handlers have ended; a second signal cuts them off", one.name
        )
        self._restore()
        for stop in self._stops:
            stop()


_SIGNALS: Final = _Signals()


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call ``stop``, in the loop, at the first SIGTERM or SIGINT."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _SIGNALS.add(stop)
    try:
        yield
    finally:
        _SIGNALS.remove(stop)


def _is_default(handler: _SystemHandler) -> bool:
    """Return whether a handler is Python's own, or that of ``asyncio.run``, which cancels the main task."""
    if isinstance(handler, partial):
        handler = handler.func
    is_of_runner = isinstance(getattr(handler, "__self__", None), asyncio.Runner)
    return is_of_runner or handler in {signal.SIG_DFL, signal.default_int_handler}
