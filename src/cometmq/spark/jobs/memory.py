"""How much memory a Python worker has taken."""

from pathlib import Path
from typing import Final

STATUS: Final = Path("/proc/self/status")


def peak_bytes() -> int:
    """Give the most memory that this process ever had resident (Linux: VmHWM); 0 where nothing tells."""
    if not STATUS.exists():
        return 0
    lines = STATUS.read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:")), 0)
