"""Minimum timeouts for some addresses, which extend the shorter timeouts of clients.

A broker inside the process that tests it is never lost, only late: on a busy machine its event loop may not
run for seconds, and a client that timed out would fail a test in which nothing is wrong.
"""

from collections.abc import Iterator
from contextlib import contextmanager

_min_timeouts_s: dict[str, float] = {}


@contextmanager
def min_timeout(address: str, seconds: float) -> Iterator[None]:
    """Extend all timeouts for an address to at least ``seconds``, in all event loops of this process."""
    _min_timeouts_s[address] = seconds
    try:
        yield
    finally:
        remove_min_timeout(address)


def remove_min_timeout(address: str) -> None:
    """Remove the minimum timeout of an address, so that the clients' own timeouts apply."""
    _min_timeouts_s.pop(address, None)


def min_timeout_s(address: str) -> float:
    """Return the minimum timeout of an address in seconds; 0 if it has none."""
    return _min_timeouts_s.get(address, 0.0)
