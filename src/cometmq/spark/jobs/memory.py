"""Measure the memory of a process."""

from pathlib import Path
from typing import Final

PROCESSES: Final = Path("/proc")


def peak_bytes(process: int | None = None) -> int:
    """Return the peak resident memory of a process in bytes (Linux: VmHWM); 0 if unknown.

    Args:
        process: its id; by default this process.
    """
    status = PROCESSES / ("self" if process is None else str(process)) / "status"
    if not status.exists():
        return 0
    lines = status.read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
