"""A clock for all processes that share a file, which goes on after a reboot.

Theory of operation: the file stores an *anchor*, one moment on several clocks. Until the next reboot the
monotonic clock, which all processes of the machine share, measures the time since the anchor. Across a reboot
the wall clock does; it may have been set meanwhile, but this clock never goes back. So setting the wall clock
neither ends a lease nor extends it. On a system without boot ids the wall clock measures always.

Pure: readings in, anchors out.
"""

from typing import NamedTuple


class Anchor(NamedTuple):
    """One moment on three clocks.

    Attributes:
        boot_id: changes at each reboot; empty where the system has none.
        monotonic_ms: the moment on the monotonic clock since that boot.
        wall_ms: the moment on the wall clock.
        file_ms: the moment on the file's clock, which began at the wall clock's time.
    """

    boot_id: str
    monotonic_ms: int
    wall_ms: int
    file_ms: int


def anchor_of(known: Anchor | None, boot_id: str, monotonic_ms: int, wall_ms: int) -> Anchor:
    """Return the anchor of the present moment, computed from an earlier one if there is one."""
    if known is None:
        return Anchor(boot_id, monotonic_ms, wall_ms, wall_ms)
    if boot_id and known.boot_id == boot_id:
        passed_ms = monotonic_ms - known.monotonic_ms
    else:
        passed_ms = wall_ms - known.wall_ms
    return Anchor(boot_id, monotonic_ms, wall_ms, known.file_ms + max(passed_ms, 0))
