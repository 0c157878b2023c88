"""Gathering findings: as many as help, the rest as a number."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cometmq.store.finding import Finding, Severity

AT_START = "the next start puts it right"
"""The remedy for what a killed process leaves."""
PER_FILE_MAX = 20
"""So many findings of one severity are kept for one file."""


class Reported(NamedTuple):
    """What a part of a check has found.

    Attributes:
        kept: the findings.
        more: how many others there were, by file and severity.
    """

    kept: list[Finding]
    more: dict[tuple[Path, Severity], int]


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

    def reported(self) -> Reported:
        """Return what was found, for ``add_reported``."""
        more = {key: count - PER_FILE_MAX for key, count in self._counts.items() if count > PER_FILE_MAX}
        return Reported(list(self._kept), more)

    def add_reported(self, reported: Reported) -> None:
        """Add what a part of the check has found."""
        for finding in reported.kept:
            self.add(finding)
        self._counts.update(reported.more)

    def has(self, severity: Severity) -> bool:
        """Tell whether there is a finding of this severity."""
        return any(key[1] is severity for key in self._counts)

    def __iter__(self) -> Iterator[Finding]:
        """Give the findings kept, and one for each file that has more."""
        yield from self._kept
        for (path, severity), count in self.reported().more.items():
            yield Finding(severity, path, None, None, f"{count} more of the kind")
