"""Reading ahead: a thread makes the next item while the one before it is used."""

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def ahead(items: Iterator[T]) -> Generator[T, None, None]:
    """Give ``items``, each but the first made in a thread while the one before it is used.

    What making an item raises comes when the item is asked for. Close it if it is not used to its end.
    """
    item = next(items, None)
    if item is None:
        return  # as in a store that was closed
    with ThreadPoolExecutor(1, thread_name_prefix="cometmq-read-ahead") as thread:
        while item is not None:
            following = thread.submit(next, items, None)
            yield item
            item = following.result()
