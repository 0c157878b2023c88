"""Whether records that a kernel chose are in memory."""

from typing import Final

from cometmq.io.files import FileMap
from cometmq.kernels.ops import Longs

DENSE: Final = 16
"""Records that take a sixteenth of the stretch they lie in, or more, are asked about with one question."""


def are_ready(mapped: FileMap, places: Longs, sizes: Longs) -> bool:
    """Tell whether records are in memory; what the system says is noted in ``mapped.resident``.

    Args:
        mapped: the file they lie in.
        places: where they begin, in order.
    """
    begin, end = int(places[0]), int(places[-1] + sizes[-1])
    if 0 < end - begin <= DENSE * int(sizes.sum()) and mapped.ready(begin, end) is not None:
        return True
    return all(
        mapped.ready(place, place + size) is not None
        for place, size in zip(places.tolist(), sizes.tolist(), strict=True)
    )
