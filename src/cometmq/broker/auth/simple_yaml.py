"""The part of YAML that ``plain_acl.yml`` files use, read strictly.

Maps and lists by indentation, ``[a, b]`` and ``{a: b}`` also over several lines, texts without quotes or in
one of both kinds, comments. Each scalar is a text, whatever it looks like: ``12345678`` is a password. What
YAML has beside this (anchors, tags, block texts, several documents) is refused with its line, not guessed.

The result has no other types than dict, list, str and None. An error shows nothing of the text but keys, for
there are passwords in it.

Source: YAML 1.2.2, chapters 7 and 8; RocketMQ 4.x ``distribution/conf/plain_acl.yml``, which its broker
rewrites with SnakeYAML.
"""

import re
from typing import Any, Final, NamedTuple

from cometmq.errors import FormatError

DEPTH_MAX: Final = 16
"""Deepest nesting: plain_acl.yml needs four levels."""

_KEY: Final = re.compile(r"([A-Za-z_]\w*)[ ]*:(?: +|$)")
_COMMENT: Final = re.compile(r"(?:^|(?<=[ \t]))#.*")
_QUOTED: Final = {
    '"': re.compile(r'"((?:[^"\\]|\\.)*)"'),
    "'": re.compile(r"'((?:[^']|'')*)'"),
}
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {'"': '"', "\\": "\\", "/": "/", "n": "\n", "t": "\t", " ": " "}
_FLOW_TEXT: Final = re.compile(r"[^,\[\]{}\"']*")
_NONE: Final = frozenset(("", "~", "null"))
_RESERVED: Final = frozenset("&*!|>%@`?,]}#")
"""Characters with which no text without quotes may begin, or that begin what is not read here."""
_OPENERS: Final = {"[": "]", "{": "}"}


def loads(text: str) -> Any:
    """Return the document as dicts, lists, texts and None. Raises FormatError that names the line."""
    lines = _logical_lines(text)
    if not lines:
        return None
    reader = _Blocks(lines)
    value = reader.block(lines[0].indent, 0)
    if (left := reader.next) is not None:
        raise _error(left.number, "it is not indented like the lines above it")
    return value


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def _logical_lines(text: str) -> list[_Line]:
    """Return the lines without comments and blank ones; a bracket that is still open joins the next line."""
    lines: list[_Line] = []
    open_line: _Line | None = None
    for number, whole in enumerate(text.splitlines(), 1):
        code = _without_comment(whole, is_flow=open_line is not None)
        body = code.strip(" ")
        if not body or (body == "---" and not lines):
            continue
        if "\t" in code[: len(code) - len(code.lstrip())]:
            raise _error(number, "a tab cannot indent: use blanks")
        if open_line is not None:
            open_line = open_line._replace(text=f"{open_line.text} {body}")
        else:
            open_line = _Line(number, len(code) - len(code.lstrip(" ")), body)
        if _open_brackets(open_line.text) <= 0:
            lines.append(open_line)
            open_line = None
    if open_line is not None:
        raise _error(open_line.number, "a bracket that begins here is not closed")
    return lines


def _without_comment(line: str, *, is_flow: bool) -> str:
    """Remove a comment and the blanks before it; a ``#`` in quotes begins none.

    Args:
        is_flow: whether the line continues brackets, so that quotes may begin anywhere in it.
    """
    masked = line
    if is_flow or _value_of(line.strip())[:1] in {*_OPENERS, *_QUOTED}:
        for quoted in _QUOTED.values():
            masked = quoted.sub(lambda found: "x" * len(found[0]), masked)
    comment = _COMMENT.search(masked)
    return (line if comment is None else line[: comment.start()]).rstrip()


def _value_of(text: str) -> str:
    """Return what follows the dashes and the key of a line."""
    while text.startswith("- "):
        text = text[2:].lstrip(" ")
    key = _KEY.match(text)
    return text[key.end() :] if key else text


def _open_brackets(text: str) -> int:
    """Return how many brackets of a value are open at its end; none where it is a text."""
    value = _value_of(text)
    if value[:1] not in _OPENERS:
        return 0
    for quoted in _QUOTED.values():
        value = quoted.sub("", value)
    return sum(map(value.count, "[{")) - sum(map(value.count, "]}"))


class _Blocks:
    """A reader of nested blocks."""

    def __init__(self, lines: list[_Line]) -> None:
        self._lines = lines
        self._at = 0

    @property
    def next(self) -> _Line | None:
        """The next line; None behind the last one."""
        return self._lines[self._at] if self._at < len(self._lines) else None

    def block(self, indent: int, depth: int) -> Any:
        """Return the map, list or scalar that begins at the next line, which has this indent."""
        line = self._lines[self._at]
        if depth > DEPTH_MAX:
            raise _error(line.number, f"nested deeper than {DEPTH_MAX} levels")
        if _is_item(line.text):
            return self._list(indent, depth)
        if _KEY.match(line.text):
            return self._map(indent, depth)
        self._at += 1
        return _scalar(line.text, line.number)

    def _list(self, indent: int, depth: int) -> list[Any]:
        items = []
        while (line := self.next) is not None and line.indent == indent and _is_item(line.text):
            rest = line.text[1:].lstrip(" ")
            if rest:  # the item is a block that begins in this line, behind the dash
                inner = line.indent + len(line.text) - len(rest)
                self._lines[self._at] = _Line(line.number, inner, rest)
                items.append(self.block(inner, depth + 1))
            else:
                self._at += 1
                items.append(self._nested(indent + 1, depth))
        return items

    def _map(self, indent: int, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        while (line := self.next) is not None and line.indent == indent and not _is_item(line.text):
            key = _KEY.match(line.text)
            if key is None:
                raise _error(line.number, "expected `name: value`")
            if key[1] in members:
                raise _error(line.number, f"{key[1]} is there twice")
            self._at += 1
            rest = line.text[key.end() :]
            following = self.next
            if rest:
                members[key[1]] = _scalar(rest, line.number)
            elif following is not None and following.indent == indent and _is_item(following.text):
                members[key[1]] = self._list(indent, depth + 1)  # YAML allows a list at its key's indent
            else:
                members[key[1]] = self._nested(indent + 1, depth)
        return members

    def _nested(self, indent_min: int, depth: int) -> Any:
        """Return the block of the next lines if they are indented; else None."""
        line = self.next
        return None if line is None or line.indent < indent_min else self.block(line.indent, depth + 1)


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _scalar(text: str, number: int) -> Any:
    """Return a value that is written in one line."""
    if text[0] in _OPENERS:
        return _Flow(text, number).whole()
    if (quoted := _QUOTED.get(text[0])) is not None:
        found = quoted.fullmatch(text)
        if found is None:
            raise _error(number, "a text does not end with its quote")
        return _unquoted(found[1], text[0], number)
    return _plain(text, number)


def _plain(text: str, number: int) -> str | None:
    if text in _NONE:
        return None
    if text[0] in _RESERVED:
        raise _error(number, f"put the text in quotes: it begins with {text[0]}, which has a meaning in YAML")
    if ": " in text or text.endswith(":"):
        raise _error(number, "put the text in quotes: it has a colon")
    return text


def _unquoted(text: str, quote: str, number: int) -> str:
    if quote == "'":
        return text.replace("''", "'")

    def meant(found: re.Match[str]) -> str:
        if found[1] not in _ESCAPED:
            raise _error(number, "a text has an escape that is not read here")
        return _ESCAPED[found[1]]

    return _ESCAPE.sub(meant, text)


class _Flow:
    """A reader of ``[a, b]`` and ``{a: b}``."""

    def __init__(self, text: str, number: int) -> None:
        self._text = text
        self._number = number
        self._at = 0

    def whole(self) -> Any:
        """Return the value, which must end with the line."""
        value = self._value(0)
        if self._rest().strip():
            raise _error(self._number, "something follows a closing bracket")
        return value

    def _value(self, depth: int) -> Any:
        self._skip_blanks()
        start = self._text[self._at : self._at + 1]
        if depth > DEPTH_MAX:
            raise _error(self._number, f"nested deeper than {DEPTH_MAX} levels")
        if start == "[":
            return self._items(depth)
        if start == "{":
            return self._members(depth)
        pattern = _QUOTED.get(start, _FLOW_TEXT)
        found = pattern.match(self._text, self._at)
        if found is None:
            raise _error(self._number, "a text does not end with its quote")
        self._at = found.end()
        if start in _QUOTED:
            return _unquoted(found[1], start, self._number)
        return _plain(found[0].strip(), self._number)

    def _items(self, depth: int) -> list[Any]:
        items = []
        self._at += 1
        while not self._ends("]"):
            items.append(self._value(depth + 1))
            self._end_item("]")
        return items

    def _members(self, depth: int) -> dict[str, Any]:
        members: dict[str, Any] = {}
        self._at += 1
        while not self._ends("}"):
            key = _KEY.match(self._text, self._at)
            if key is None or key[1] in members:
                raise _error(self._number, "expected a new `name: value` in brackets")
            self._at = key.end()
            members[key[1]] = self._value(depth + 1)
            self._end_item("}")
        return members

    def _ends(self, closing: str) -> bool:
        """Read the closing bracket, if it is next."""
        self._skip_blanks()
        ends = self._text.startswith(closing, self._at)
        self._at += ends
        return ends

    def _end_item(self, closing: str) -> None:
        """Read the comma behind an item, unless the closing bracket is next."""
        self._skip_blanks()
        if self._text.startswith(",", self._at):
            self._at += 1
        elif not self._text.startswith(closing, self._at):
            raise _error(self._number, f"expected ',' or '{closing}'")

    def _skip_blanks(self) -> None:
        while self._text.startswith(" ", self._at):
            self._at += 1

    def _rest(self) -> str:
        return self._text[self._at :]


def _error(number: int, reason: str) -> FormatError:
    return FormatError(f"line {number}: {reason}")
