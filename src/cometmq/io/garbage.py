"""Cheaper garbage collection: objects that survive a full collection are excluded from the next ones.

A full collection visits every object that could be part of a cycle. With tens of thousands of queues that
takes a tenth of a second, in which the process does nothing else. So its survivors are frozen
(``gc.freeze``), and the next one visits only newer objects. Frozen objects can become garbage, too, above all
those of connections that were closed since, so from time to time they are unfrozen and all objects are
visited.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from cometmq.io.clock import Clock

ALL_INTERVAL_MS: Final = 3_600_000
"""Interval of the collections that visit all objects."""
FULL: Final = 2
"""The oldest generation, which a full collection visits."""


@contextmanager
def freeze_survivors(clock: Clock) -> Iterator[None]:
    """Freeze the survivors of full collections until the end of the ``with`` statement.

    Args:
        clock: says when to visit all objects again.
    """
    looked_ms = clock.monotonic_ms()

    def on_collection(phase: str, info: dict[str, Any]) -> None:
        nonlocal looked_ms
        if info["generation"] < FULL:
            return
        if phase == "stop":
            gc.freeze()
        elif (now_ms := clock.monotonic_ms()) - looked_ms >= ALL_INTERVAL_MS:
            looked_ms = now_ms
            gc.unfreeze()

    gc.callbacks.append(on_collection)
    try:
        yield
    finally:
        gc.callbacks.remove(on_collection)
        gc.unfreeze()
