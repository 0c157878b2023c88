"""JSON as fastjson reads and writes it for RocketMQ, which goes beyond the standard.

Written as fastjson 2.0 does for RocketMQ 5.4: members of objects in the order given; ``null`` members left
out; integer keys without quotes; no blanks; the pretty form with one tab per level and one member per line::

    {
    →   "offsetTable":{
    →   →   "TopicA@GroupA":{
    →   →   →   0:17,
    →   →   →   1:18
    →   →   }
    →   },
    →   "empty":{
    →   →
    →   }
    }

Read, besides standard JSON: integer keys without quotes, objects as keys (``{{"topic":"T"}:1}``), names
without quotes, single quotes, a comma before a closing bracket, raw control characters in strings, and
anything at all after the first value. Older versions' layouts read the same.

In Python an integer key is an int and an object as a key an ``ObjectKey``; all other values are as in
``json``.

Source: fastjson 2.0: JSONWriterUTF16.java, ObjectWriterImplMap.java; fastjson 1.2: JSONScanner.java.
"""

import json
import math
import re
from typing import Any, Final

import msgspec

from cometmq.errors import FormatError
from cometmq.message import Buffer

DEPTH_MAX: Final = 128
"""Deepest nesting: all that goes through a decoded value may then recurse."""


class ObjectKey(tuple[tuple[Any, Any], ...]):
    """An object as the key of a member: its own members as pairs, in order.

    Create one by ``ObjectKey({"topic": "T"}.items())``; ``dict(key)`` returns the object.
    """

    __slots__ = ()


class Written(str):
    """JSON text of a value that is already encoded: ``dumps`` inserts it unchanged."""

    __slots__ = ()


def dumps(value: Any, *, pretty: bool = False, level: int = 0) -> str:
    """Encode a value as RocketMQ does: in the pretty form for files, else for the wire.

    In the pretty form lists take one line per element; tuples stay on one line, as Java's arrays of numbers
    do. Numbers that JSON lacks (NaN, infinity) become ``null``. Raises TypeError for a type that JSON lacks.

    Args:
        level: nesting level at which the text will be inserted as ``Written`` into a pretty form.
    """
    return _written(value, "\n" + "\t" * level if pretty else "")


def loads(data: str | Buffer) -> Any:
    """Decode the value at the beginning of ``data``, which is UTF-8 if it is bytes.

    Raises FormatError with the position in characters if there is none or if it is nested too deep.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # not standard JSON: the lenient reader decodes it or raises the error
    else:
        _check_depth(value)
        return value
    if isinstance(data, str):
        return _JsonReader(data).value()
    try:
        return _JsonReader(str(data, "utf-8")).value()
    except UnicodeDecodeError as error:
        raise FormatError(f"JSON is not UTF-8 at byte {error.start}: {error.reason}") from None


def _check_depth(value: Any) -> None:
    """Raise FormatError for a value that is nested too deep, level by level."""
    level = [value]
    for _ in range(DEPTH_MAX):
        level = [
            item
            for one in level
            if isinstance(one, dict | list)
            for item in (one.values() if isinstance(one, dict) else one)
            if isinstance(item, dict | list)
        ]
        if not level:
            return
    raise FormatError(f"JSON: nested deeper than {DEPTH_MAX} levels")


quoted = json.encoder.encode_basestring
"""Encodes a string."""


def _written(value: Any, line: str) -> str:
    """Encode a value; ``line`` is the line break and indent of its level, or empty in the compact form."""
    if isinstance(value, str):
        return value if isinstance(value, Written) else quoted(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, dict):
        return _written_object(value, line)
    if isinstance(value, ObjectKey):
        return _written_object(dict(value), line)
    if isinstance(value, list):
        inner = line and line + "\t"
        return f"[{inner}{f',{inner}'.join([_written(item, inner) for item in value])}{line}]"
    if isinstance(value, tuple):
        return f"[{','.join([_written(item, '') for item in value])}]"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "null"
    raise TypeError(f"{type(value).__name__} cannot be written as JSON: {value!r:.80}")


def _written_object(members: dict[Any, Any], line: str) -> str:
    inner = line and line + "\t"
    texts = [
        f"{key_text(name, inner)}:{_written(value, inner)}"
        for name, value in members.items()
        if value is not None
    ]
    return f"{{{inner}{f',{inner}'.join(texts)}{line}}}"


_KEY_BEGIN: Final = re.compile(rb"(?<=[{,])(?=-?[0-9]+:)")
_KEY_END: Final = re.compile(rb"(?<=[0-9])(?=:)")


def with_quoted_keys(data: Buffer) -> bytes:
    """Quote the integer keys of JSON, so that a parser of the standard can read it, which is far faster.

    Text that is not as brokers write it, with blanks or escapes, may stay wrong: then that parser refuses it.
    """
    data = bytes(data)
    if b"\\" in data or b"\0" in data:
        return data
    parts = data.split(b'"')  # every other one is a string
    outside = _KEY_END.sub(b"\0", _KEY_BEGIN.sub(b"\0", b'"'.join(parts[::2])))
    parts[::2] = outside.split(b'"')
    return b'"'.join(parts).replace(b"\0", b'"')


def key_text(name: Any, line: str = "") -> str:
    """Encode the name of a member; ``line`` is the line break and indent of its level."""
    return quoted(name) if isinstance(name, str) else _written(name, line)


_BLANK: Final = frozenset(" \t\r\n\f\b\ufeff")
_BLANKS: Final = re.compile(r"[ \t\r\n\f\b\ufeff]*")
_STRING: Final = {  # by the quote that begins it
    '"': re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"', re.DOTALL),
    "'": re.compile(r"'([^'\\]*(?:\\.[^'\\]*)*)'", re.DOTALL),
}
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", re.DOTALL)
_ESCAPED: Final = {
    **dict(zip("btnvfr\"'/\\", "\b\t\n\v\f\r\"'/\\", strict=True)),
    **{str(number): chr(number) for number in range(8)},
}
_INTEGER: Final = re.compile(r"(-?[0-9]+)")
_NUMBER: Final = re.compile(r"(-?[0-9]+)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_NAME: Final = re.compile(r"[A-Za-z_$][\w$]*")
_WORD: Final = re.compile(r"(?:true|false|null)\b")
_WORDS: Final = {"true": True, "false": False, "null": None}


class _JsonReader:
    """A decoder of one value, as lenient as fastjson."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def value(self) -> Any:
        start = self._next()
        if start == "{":
            return self._object()
        if start == "[":
            return self._array()
        if start in _STRING:
            return self._string(start)
        if number := self._take(_NUMBER):
            return self._number(number)
        if word := self._take(_WORD):
            return _WORDS[word[0]]
        raise self._expected("a value")

    def _object(self) -> dict[Any, Any]:
        members = {}
        self._enter()
        while self._next() != "}":
            name = self._name()
            if self._next() != ":":
                raise self._expected("':'")
            self._position += 1
            members[name] = self.value()
            self._end_of_item("}")
        self._leave()
        return members

    def _array(self) -> list[Any]:
        items = []
        self._enter()
        while self._next() != "]":
            items.append(self.value())
            self._end_of_item("]")
        self._leave()
        return items

    def _name(self) -> Any:
        start = self._next()
        if start in _STRING:
            return self._string(start)
        if start == "{":
            return _as_key(self._object())
        if number := self._take(_INTEGER):
            return self._number(number)
        if name := self._take(_NAME):
            return name[0]
        raise self._expected("a name")

    def _string(self, quote: str) -> str:
        found = self._take(_STRING[quote])
        if not found:
            raise self._expected(f"a string that ends in {quote}")
        if "\\" not in found[1]:
            return found[1]
        try:
            text = _ESCAPE.sub(_unescaped, found[1])
        except KeyError as unknown:
            raise _error(found.start(), f"unknown escape \\{unknown.args[0]} in a string") from None
        # Halves of a pair come as one escape each; a half without its other one is no character.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    def _number(self, found: re.Match[str]) -> int | float:
        try:
            number = int(found[1]) if found[0] == found[1] else float(found[0])
        except ValueError:
            raise _error(found.start(), "number has more digits than Python converts") from None
        if isinstance(number, float) and math.isinf(number):
            raise _error(found.start(), f"{found[0]:.40} is too large a number")
        return number

    def _next(self) -> str:
        """Skip blanks and return the character there, or an empty string at the end."""
        character = self._text[self._position : self._position + 1]
        if character not in _BLANK:
            return character
        self._take(_BLANKS)
        return self._text[self._position : self._position + 1]

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._position)
        if found:
            self._position = found.end()
        return found

    def _end_of_item(self, closing: str) -> None:
        following = self._next()
        if following == ",":
            self._position += 1
        elif following != closing:
            raise self._expected(f"',' or '{closing}'")

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise _error(self._position, f"nested deeper than {DEPTH_MAX} levels")
        self._position += 1

    def _leave(self) -> None:
        self._depth -= 1
        self._position += 1

    def _expected(self, expected: str) -> FormatError:
        found = self._text[self._position : self._position + 20] or "the end"
        return _error(self._position, f"expected {expected}, found {found!r}")


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    return chr(int(escape[1:], 16)) if len(escape) > 1 else _ESCAPED[escape]


def _error(position: int, reason: str) -> FormatError:
    return FormatError(f"JSON at character {position}: {reason}")


def _as_key(value: Any) -> Any:
    """Return a hashable form of a value, to be a key."""
    if isinstance(value, dict):
        return ObjectKey((name, _as_key(member)) for name, member in value.items())
    return tuple(map(_as_key, value)) if isinstance(value, list) else value
