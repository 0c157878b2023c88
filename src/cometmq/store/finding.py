"""What a check of a store found: where, what, and what to do about it."""

from enum import Enum
from pathlib import Path
from typing import NamedTuple


class Severity(Enum):
    """How bad a finding is.

    ``DAMAGE`` is lost or wrong bytes. ``RECOVERY`` is what a killed process leaves and the next start
    puts right by itself. A ``NOTE`` is worth knowing, and nothing is wrong.
    """

    DAMAGE = "damage"
    RECOVERY = "needs recovery"
    NOTE = "note"


class Finding(NamedTuple):
    """One thing found.

    Attributes:
        position: first byte of the file that is meant, or None for the file as a whole.
        size: how many bytes, or None if that says nothing.
        what: what is wrong there, with the numbers.
        remedy: what helps; empty if nothing needs to be done.
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
