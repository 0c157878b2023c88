"""Times that a slow machine does not make too short.

What must come is waited for so long that only a fault makes it late. Where something must be done before a
message is due, times are doubled if the machine was slower than that.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Final, TypeVar

from cometmq.net.min_timeouts import min_timeout

PATIENCE_S: Final = 240
"""How long tests wait for what must come: ``Patience.WAIT_S`` is the same for the Java programs."""
PROGRAM_S: Final = 2 * PATIENCE_S
"""How long a Java program may take, which waits that long itself before it says what is missing."""
PAUSE_S: Final = 0.1
FACTORS: Final = (1, 2, 4, 8)

Result = TypeVar("Result")


@contextmanager
def patient_clients(*addresses: str) -> Iterator[None]:
    """Extend the timeouts of our clients for servers: on a busy machine these are only late."""
    with ExitStack() as extended:
        for address in addresses:
            extended.enter_context(min_timeout(address, PATIENCE_S / 2))
        yield


def wait_until(holds: Callable[[], object]) -> None:
    """Ask again and again until something holds that nobody reports; others need the processor meanwhile.

    Raises:
        AssertionError: it does not hold after ``PATIENCE_S``.
    """
    pause, deadline = Event(), time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        pause.wait(PAUSE_S)


class TimesTooShort(Exception):
    """A message was due before that was done which must come before; says nothing of the broker."""


def with_longer_times(attempt: Callable[[int], Result]) -> Result:
    """Call with 1, the factor of all times, and return the result; with 2, 4 and 8 while they are too short.

    Raises:
        TimesTooShort: even the longest were.
    """
    *factors, longest = FACTORS
    for factor in factors:
        try:
            return attempt(factor)
        except TimesTooShort as why:
            print(f"\n{factor} times the usual times are too short: {why}", end="")
    return attempt(longest)
