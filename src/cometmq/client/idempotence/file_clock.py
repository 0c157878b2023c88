"""One clock for all processes that share a file, also after the machine was started again.

Theory of operation: the file keeps an *anchor*, one moment on several clocks. While the machine runs, its
monotonic clock is the same for all of its processes and says how much time has passed since. Only across a
start of the machine the wall clock must say that; it may have been set meanwhile, but time does not go back.
So to set the wall clock neither ends a lease nor extends it. Where the system does not tell one start of the
machine from another (it has no boot id), the wall clock is all there is.

Pure: readings come in, anchors go out.
"""

from typing import NamedTuple


class Anchor(NamedTuple):
    """One moment.

    Attributes:
        boot_id: names the run of the machine; empty where the system does not tell.
        monotonic_ms: the moment by the clock of that run …
        wall_ms: … by the wall clock …
        file_ms: … and by the file's clock, which began at the wall clock's time.
    """

    boot_id: str
    monotonic_ms: int
    wall_ms: int
    file_ms: int


def anchor_of(known: Anchor | None, boot_id: str, monotonic_ms: int, wall_ms: int) -> Anchor:
    """Return this moment, by an earlier one if one is known."""
    if known is None:
        return Anchor(boot_id, monotonic_ms, wall_ms, wall_ms)
    if boot_id and known.boot_id == boot_id:
        passed_ms = monotonic_ms - known.monotonic_ms
    else:
        passed_ms = wall_ms - known.wall_ms
    return Anchor(boot_id, monotonic_ms, wall_ms, known.file_ms + max(passed_ms, 0))
