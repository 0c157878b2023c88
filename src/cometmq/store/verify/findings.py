"""Collect findings, and count those beyond a limit per file."""

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from cometmq.store.files.finding import Finding, Severity

AT_START = "the next start puts it right"
"""The remedy for the state that a killed process leaves."""
PER_FILE_MAX = 20
"""Most findings of one severity that are kept for a file."""


class Reported(NamedTuple):
    """The findings of a part of a check.

    Attributes:
        kept: the findings.
        more: the number of further ones, by file and severity.
    """

    kept: list[Finding]
    more: dict[tuple[Path, Severity], int]


class Findings:
    """The findings of one check, in the order in which they were added."""

    def __init__(self) -> None:
        self._kept: list[Finding] = []
        self._counts: Counter[tuple[Path, Severity]] = Counter()

    def add(self, finding: Finding) -> None:
        """Add a finding."""
        key = (finding.path, finding.severity)
        self._counts[key] += 1
        if self._counts[key] <= PER_FILE_MAX:
            self._kept.append(finding)

    def add_all(self, findings: Iterable[Finding]) -> None:
        """Add several findings."""
        for finding in findings:
            self.add(finding)

    def damage(self, path: Path, position: int | None, size: int | None, what: str, remedy: str) -> None:
        """Add a finding of damage."""
        self.add(Finding(Severity.DAMAGE, path, position, size, what, remedy))

    def note(self, path: Path, what: str, remedy: str = "") -> None:
        """Add a finding that is only a note."""
        self.add(Finding(Severity.NOTE, path, None, None, what, remedy))

    def reported(self) -> Reported:
        """Return the findings as a value, for ``add_reported``."""
        more = {key: count - PER_FILE_MAX for key, count in self._counts.items() if count > PER_FILE_MAX}
        return Reported(list(self._kept), more)

    def add_reported(self, reported: Reported) -> None:
        """Add the findings of a part of the check."""
        self.add_all(reported.kept)
        self._counts.update(reported.more)

    def has(self, severity: Severity) -> bool:
        """Check whether there is a finding of this severity."""
        return any(key[1] is severity for key in self._counts)

    def __iter__(self) -> Iterator[Finding]:
        """Iterate over the findings kept, and one more for each file that has others."""
        yield from self._kept
        for (path, severity), count in self.reported().more.items():
            yield Finding(severity, path, None, None, f"{count} more of the kind")
