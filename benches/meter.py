"""What load generators in Python measure by. It needs nothing but Python: they are for other clients, too."""

import threading
import time
from collections.abc import Callable
from typing import Any, Final

RAMP_S: Final = 0.5
FIRST_TIMEOUT_S: Final = 60.0
IDLE_S: Final = 1.0
Order = dict[str, Any]


class Meter:
    """Counts messages, their time and this process's CPU time, for the seconds of an order after a ramp.

    Where messages run out before, it counts as long as there were some.
    """

    def __init__(self, order: Order) -> None:
        self.body = bytes(97 + place % 26 for place in range(order["bodySize"]))
        self.topics = [f"bench-{number}" for number in range(order["topics"])]
        self._seconds = order["seconds"]
        self._made = 0
        self._begin = time.perf_counter() + RAMP_S
        self._end: float | None = None
        self._counted = 0
        self._last = 0.0
        self._cpu_s = 0.0
        self._is_over = False

    def next_topic(self) -> str:
        """Return the topic whose turn it is."""
        self._made += 1
        return self.topics[self._made % len(self.topics)]

    def goes_on(self, count: int) -> bool:
        """Count messages that were answered, or came; tell whether to go on."""
        now = time.perf_counter()
        if self._end is None:
            if now >= self._begin:
                self._begin, self._last, self._end = now, now, now + self._seconds
                self._cpu_s = time.process_time()
        elif now < self._end:
            self._counted += count
            self._last = now
        else:
            self._stop()
        return not self._is_over

    @property
    def is_over(self) -> bool:
        """Whether the time is over, or no more messages come."""
        now = time.perf_counter()
        if self._end is None:
            return now > self._begin + FIRST_TIMEOUT_S
        if now >= min(self._end, self._last + IDLE_S):
            self._stop()
        return self._is_over

    def result(self) -> dict[str, float]:
        """Return rate and cost as ``java/Window.java`` says them: 0 where no message came or was answered."""
        if not self._counted:
            return {"perSecond": 0, "clientCpuMicros": 0, "failed": 0}
        rate = self._counted / (self._last - self._begin)
        return {"perSecond": rate, "clientCpuMicros": self._cpu_s / self._counted * 1e6, "failed": 0}

    def run(self, work: Callable[[], None], threads: int) -> dict[str, float]:
        """Work in some threads until it is over; return the result."""
        running = [threading.Thread(target=work) for _ in range(threads)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return self.result()

    def _stop(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._cpu_s = time.process_time() - self._cpu_s
