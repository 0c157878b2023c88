"""The page ``docs/guide/server.md``: the shell's blocks of its sections, and what is typed at its prompts."""

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from tests.kit.pages import FENCED, PROMPT, ROOT

PAGE: Final = ROOT / "docs" / "guide" / "server.md"
SYSTEMCTL: Final = "systemctl"


def section(title: str) -> str:
    """Return a section of the page. Raises KeyError if there is none of this title."""
    parts = PAGE.read_text().split("\n## ")[1:]
    sections = {heading: text for heading, _, text in (part.partition("\n") for part in parts)}
    return sections[title]


def script(title: str) -> str:
    """Return the shell's first block of a section."""
    block: str = next(block for language, block in FENCED.findall(section(title)) if language == "sh")
    return block


def typed(title: str) -> list[str]:
    """Return what is typed at the prompts of a section, in order."""
    shown = [block for language, block in FENCED.findall(section(title)) if language == "console"]
    return [line for block in shown for line in PROMPT.findall(block)]


def steps(text: str) -> Iterator[tuple[bool, str]]:
    """Split a script where ``systemctl`` takes its turn; yield whether it does, and the lines."""
    for is_systemctl, lines in groupby(text.splitlines(), lambda line: line.partition(" ")[0] == SYSTEMCTL):
        yield is_systemctl, "\n".join(lines)
