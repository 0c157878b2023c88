"""Show foreign text without obeying it: a name or a remark may hold line breaks and a terminal's commands."""


def printable(text: str) -> str:
    r"""Escape what is not printable: ``\n`` for a line break, ``\x1b`` for the beginning of a command."""
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(char: str) -> str:
    return char if char.isprintable() else ascii(char)[1:-1]
