"""Servers whose answers are waited for longer than their clients ask for.

A broker inside the process that tests is never lost, only late: on a machine that is busy its loop may not
run for seconds, and a client that gave up would fail a test in which nothing is wrong.
"""

from collections.abc import Iterator
from contextlib import contextmanager

_least_s: dict[str, float] = {}


@contextmanager
def patience_with(address: str, seconds: float) -> Iterator[None]:
    """Wait at least so long for what is asked of an address, in all loops of this process."""
    _least_s[address] = seconds
    try:
        yield
    finally:
        lose_patience_with(address)


def lose_patience_with(address: str) -> None:
    """Wait for an address as long as its clients ask for."""
    _least_s.pop(address, None)


def least_s(address: str) -> float:
    """Return how long an answer from an address is waited for at least, in seconds."""
    return _least_s.get(address, 0.0)
