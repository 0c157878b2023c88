"""Gathering findings: as many as help, the rest as a number."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from cometmq.store.finding import Finding, Severity

PER_FILE_MAX = 20
"""So many findings of one severity are kept for one file."""


class Findings:
    """The findings of one check, in the order of their coming."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[Path, Severity]] = Counter()

    def add(self, finding: Finding) -> None:
        """Take a finding in."""
        key = (finding.path, finding.severity)
        self._counts[key] += 1
        if self._counts[key] <= PER_FILE_MAX:
            self._kept.append(finding)

    def damage(self, path: Path, position: int | None, size: int | None, what: str, remedy: str) -> None:
        """Take in damage."""
        self.add(Finding(Severity.DAMAGE, path, position, size, what, remedy))

    def note(self, path: Path, what: str, remedy: str = "") -> None:
        """Take in a note."""
        self.add(Finding(Severity.NOTE, path, None, None, what, remedy))

    def has(self, severity: Severity) -> bool:
        """Tell whether there is a finding of this severity."""
        return any(key[1] is severity for key in self._counts)

    def __iter__(self) -> Iterator[Finding]:
        """Give the findings kept, and one for each file that has more."""
        yield from self._kept
        for (path, severity), count in self._counts.items():
            if count > PER_FILE_MAX:
                yield Finding(severity, path, None, None, f"{count - PER_FILE_MAX} more of the kind")
