r"""Settings as lines of text, as Java's ``Properties`` reads them and RocketMQ writes them.

The bodies of UPDATE_BROKER_CONFIG, GET_BROKER_CONFIG and their twins of the name server, and the files that
RocketMQ's ``-c`` option names. Encoding: ``name=value`` and a line feed, in the order of the names.

Decoding (``java.util.Properties.load``):

* blank lines and those that begin with ``#`` or ``!`` are ignored;
* a name ends at the first ``=``, ``:`` or blank; blanks around the ``=`` or ``:`` are ignored;
* a backslash at the end of a line continues it in the next line; elsewhere it begins ``\t \n \r \f``
  or ``\uXXXX``, or escapes the character itself.

RocketMQ: ``MixAll.java`` (properties2String, string2Properties).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from cometmq.errors import FormatError
from cometmq.message import Buffer


def encode(settings: Mapping[str, str]) -> bytes:
    """Encode settings, sorted by name."""
    return "".join([f"{name}={settings[name]}\n" for name in sorted(settings)]).encode()


def decode(data: Buffer) -> dict[str, str]:
    """Decode settings; of several lines with the same name the last one counts.

    Raises:
        FormatError: they are not UTF-8, or contain an invalid escape.
    """
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"settings are not UTF-8 at byte {error.start}: {error.reason}") from None
    return dict(_pair(line) for line in _logical_lines(text))


_BLANKS: Final = " \t\f"
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_NAME: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)")
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _logical_lines(text: str) -> Iterator[str]:
    """Iterate over the lines without comments, each joined with its continuation lines."""
    lines = iter(_LINE_END.split(text))
    for line in lines:
        whole = line.lstrip(_BLANKS)
        if not whole or whole[0] in "#!":
            continue
        parts = [whole]
        while _goes_on(parts[-1]):
            parts[-1] = parts[-1][:-1]
            parts.append(next(lines, "").lstrip(_BLANKS))
        yield "".join(parts)


def _goes_on(line: str) -> bool:
    """Check whether a line ends in a backslash that is not itself escaped."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _pair(line: str) -> tuple[str, str]:
    name = _NAME.match(line)
    assert name is not None, "the pattern matches the empty string"
    return _unescaped(name[1]), _unescaped(line[name.end() :])


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    # Halves of a pair come as one escape each; a half without its other one is no character.
    return _ESCAPE.sub(_meant, text).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _meant(escape: re.Match[str]) -> str:
    character = escape[1]
    if character == "u":
        raise FormatError(f"settings have an escape without four hexadecimal digits: {escape.string[:80]!r}")
    if len(character) > 1:
        return chr(int(character[1:], 16))
    return _ESCAPED.get(character, character)
