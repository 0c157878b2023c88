"""Asking the system whether what leaf operations need is in memory."""

from typing import Final

from cometmq.io.files import FileMap
from cometmq.kernels.arrays import Longs
from cometmq.kernels.queries.rows import QueryRow, QueryState

DENSE: Final = 16
"""Records that fill at least this fraction (1/16) of their stretch are checked by one system call."""


def are_ready(mapped: FileMap, places: Longs, sizes: Longs) -> bool:
    """Check whether records are in memory; ``mapped.resident`` caches the system's answers.

    Args:
        mapped: the file that holds them.
        places: int64[n], the positions of the records in the file, ascending.
        sizes: int64[n], their sizes in bytes.
    """
    begin, end = int(places[0]), int(places[-1] + sizes[-1])
    if 0 < end - begin <= DENSE * int(sizes.sum()) and mapped.ready(begin, end) is not None:
        return True
    return all(
        mapped.ready(place, place + size) is not None
        for place, size in zip(places.tolist(), sizes.tolist(), strict=True)
    )


def settle(mapped: FileMap, query: QueryRow, state: QueryState) -> None:
    """Check the bytes that a query is MISSING: if they are in memory it gets ``state``, else it is LEFT."""
    is_ready = mapped.ready(query.place, query.place_end) is not None
    query.state = state if is_ready else QueryState.LEFT
