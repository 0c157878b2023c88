"""A thread makes the next item while the one before it is used."""

import threading
from collections.abc import Iterator

import pytest

from cometmq.store.recovery.read_ahead import ahead


def test_all_items_come_in_their_order() -> None:
    assert list(ahead(iter(range(100)))) == list(range(100))
    assert list(ahead(iter(()))) == []


def test_the_next_item_is_made_while_one_is_used() -> None:
    making = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        making.set()
        yield 2

    given = ahead(items())
    assert next(given) == 1
    assert making.wait(10)
    assert list(given) == [2]


def test_what_making_an_item_raises_comes_in_its_place() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("gone")

    given = ahead(items())
    assert next(given) == 1
    with pytest.raises(OSError, match="gone"):
        next(given)


def test_no_thread_stays_when_it_is_closed() -> None:
    given = ahead(iter(range(100)))
    next(given)
    given.close()
    assert not [thread for thread in threading.enumerate() if "read-ahead" in thread.name]
