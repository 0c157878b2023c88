"""Collecting garbage without looking at what lives long again and again.

A full collection looks at every object that could be part of a cycle. With tens of thousands of queues that
takes a tenth of a second, in which a process does nothing else. So what has outlived one is set aside, and
the next looks only at what is new. What was set aside can become garbage, too: what connections had that were
closed since, above all. So now and then one looks at all.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from cometmq.io.clock import Clock

ALL_INTERVAL_MS: Final = 3_600_000
"""Until a full collection looks at all again."""
FULL: Final = 2
"""The generation of a full collection."""


@contextmanager
def survivors_set_aside(clock: Clock) -> Iterator[None]:
    """Set aside what outlives full collections of this process, until the end of the ``with``.

    Args:
        clock: says when it is time to look at all.
    """
    looked_ms = clock.monotonic_ms()

    def note(phase: str, info: dict[str, Any]) -> None:
        nonlocal looked_ms
        if info["generation"] < FULL:
            return
        if phase == "stop":
            gc.freeze()
        elif (now_ms := clock.monotonic_ms()) - looked_ms >= ALL_INTERVAL_MS:
            looked_ms = now_ms
            gc.unfreeze()

    gc.callbacks.append(note)
    try:
        yield
    finally:
        gc.callbacks.remove(note)
        gc.unfreeze()
