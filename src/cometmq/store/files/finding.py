"""Findings: what a check of a store reports, where, and the remedy."""

from enum import Enum
from pathlib import Path
from typing import NamedTuple


class Severity(Enum):
    """How bad a finding is.

    ``DAMAGE`` is lost or wrong bytes. ``RECOVERY`` is what a killed process leaves and the next start
    repairs by itself. A ``NOTE`` is information only.
    """

    DAMAGE = "damage"
    RECOVERY = "needs recovery"
    NOTE = "note"


class Finding(NamedTuple):
    """One finding of a check.

    Attributes:
        position: first byte concerned, or None for the whole file.
        size: number of bytes concerned, or None if unknown.
        what: what is wrong there, with the numbers.
        remedy: how to repair it; empty if nothing needs to be done.
    """

    severity: Severity
    path: Path
    position: int | None
    size: int | None
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        place = "" if self.position is None else f", byte {self.position}"
        extent = "" if self.size is None else f", {self.size} bytes"
        remedy = f"; {self.remedy}" if self.remedy else ""
        return f"{self.path}{place}{extent}: {self.what}{remedy}"
