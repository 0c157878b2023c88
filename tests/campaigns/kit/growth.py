"""Whether a process stays as large as it was."""

from pathlib import Path
from typing import Final, NamedTuple

RSS_MAX: Final = 1.05
"""So much of what it was a process may have."""
RSS_FREE: Final = 1 << 20
TASKS_FREE: Final = 5
FILES_FREE: Final = 3
"""So much more is not told from what comes and goes."""


class Sample(NamedTuple):
    """What processes have: bytes of memory by process, and the clients' tasks and files."""

    rss: dict[str, int]
    tasks: int
    files: int

    def grown_since(self, then: "Sample") -> list[str]:
        """Return what has grown more than it may."""
        grown = [
            f"{name} has grown from {then.rss[name] >> 10:,} to {size >> 10:,} KiB"
            for name, size in self.rss.items()
            if size > then.rss[name] * RSS_MAX + RSS_FREE
        ]
        if self.tasks > then.tasks + TASKS_FREE:
            grown.append(f"tasks have grown from {then.tasks} to {self.tasks}")
        if self.files > then.files + FILES_FREE:
            grown.append(f"files have grown from {then.files} to {self.files}")
        return grown


def memory(pid: int, name: str = "VmRSS") -> int:
    """Return the bytes of memory that a process has, or, by ``RssAnon``, those that it has to itself.

    The rest are pages of files: its programs, and of a broker the log, which are the page cache's.
    """
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        found, _, value = line.partition(":")
        if found == name:
            return int(value.split()[0]) << 10
    raise ValueError(f"process {pid} tells no {name}")
