"""How much memory a process has taken."""

from pathlib import Path
from typing import Final

PROCESSES: Final = Path("/proc")


def peak_bytes(process: int | None = None) -> int:
    """Give the most memory that a process ever had resident (Linux: VmHWM); 0 where nothing tells.

    Args:
        process: its id; by default this process.
    """
    status = PROCESSES / ("self" if process is None else str(process)) / "status"
    if not status.exists():
        return 0
    lines = status.read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
