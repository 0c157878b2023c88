r"""Settings as lines of text, as Java's ``Properties`` reads them and RocketMQ writes them.

The bodies of UPDATE_BROKER_CONFIG, GET_BROKER_CONFIG and their twins of the name server, and the files that
RocketMQ's ``-c`` option names. Written: ``name=value`` and a line feed, in the order of the names.

Read (``java.util.Properties.load``):

* blank lines and those that begin with ``#`` or ``!`` are passed over;
* a name ends at the first ``=``, ``:`` or blank; blanks around the ``=`` or ``:`` do not count;
* a backslash at the end of a line goes on in the next, elsewhere it makes ``\t \n \r \f``, ``\uXXXX`` or
  the character itself.

RocketMQ: ``MixAll.java`` (properties2String, string2Properties).
"""

import re
from collections.abc import Mapping
from typing import Final

from cometmq.errors import FormatError
from cometmq.message import Buffer


def encode(settings: Mapping[str, str]) -> bytes:
    """Write settings, sorted by name."""
    return "".join([f"{name}={settings[name]}\n" for name in sorted(settings)]).encode()


def decode(data: Buffer) -> dict[str, str]:
    """Read settings; of several lines of a name the last one counts.

    Raises:
        FormatError: it is not UTF-8, or has an escape that means nothing.
    """
    try:
        text = str(data, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"settings are not UTF-8 at byte {error.start}: {error.reason}") from None
    pairs = [_pair(line) for line in _LOGICAL_LINE.findall(text) if _meaningful(line)]
    return dict(pairs)


# A line with those that backslashes at its end add to it.
_LOGICAL_LINE: Final = re.compile(r"(?:[^\\\r\n]|\\(?:\r\n|.|\n|$))+", re.DOTALL)
_CONTINUATION: Final = re.compile(r"\\(?:\r\n|\r|\n)[ \t\f]*")
_NAME: Final = re.compile(r"((?:[^\\=: \t\f]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.|$)", re.DOTALL)
_ESCAPED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def _meaningful(line: str) -> bool:
    content = line.lstrip(" \t\f")
    return bool(content) and content[0] not in "#!"


def _pair(line: str) -> tuple[str, str]:
    joined = _CONTINUATION.sub("", line).strip("\r\n").lstrip(" \t\f")
    name = _NAME.match(joined)
    assert name is not None, "the pattern matches the empty string"
    return _ESCAPE.sub(_unescaped, name[1]), _ESCAPE.sub(_unescaped, joined[name.end() :])


def _unescaped(escape: re.Match[str]) -> str:
    meant = escape[1]
    if meant == "u":
        raise FormatError(f"settings have an escape without four hexadecimal digits: {escape.string[:80]!r}")
    if len(meant) > 1:
        return chr(int(meant[1:], 16))
    return _ESCAPED.get(meant, meant)
