"""The part of YAML that ``plain_acl.yml`` files use, read strictly.

Each scalar is a text, whatever it looks like: ``12345678`` is a password. What YAML has beside maps, lists
and texts (anchors, tags, block texts, several documents) is refused with its line, and so is a key that is
there twice. An error shows nothing of the text but keys, for there are passwords in it.

Source: RocketMQ 4.x ``distribution/conf/plain_acl.yml``, which its broker rewrites with SnakeYAML.
"""

import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from cometmq.errors import FormatError

DEPTH_MAX: Final = 16
"""Deepest nesting: plain_acl.yml needs four levels."""
_NONE: Final = frozenset(("", "~", "null"))
_TAG: Final = re.compile(r"'!.+'")
"""What PyYAML shows of a tag; it may be a part of a password."""


def loads(text: str) -> Any:
    """Return the document as dicts, lists, texts and None. Raises FormatError that names the line."""
    try:
        return _document(yaml.parse(text, Loader=yaml.BaseLoader))
    except yaml.MarkedYAMLError as error:
        shown = _TAG.sub("'!'", error.problem)
        raise _error(error.problem_mark, f"{shown}: put texts with special characters in quotes") from None
    except yaml.reader.ReaderError as error:
        number = text.count("\n", 0, error.position) + 1
        raise FormatError(f"line {number}: {error.reason}") from None


def _document(events: Iterator[Any]) -> Any:
    """Read the only document of a stream; None if there is none."""
    value, is_read = None, False
    for event in events:
        if not isinstance(event, yaml.DocumentStartEvent):
            continue  # the stream's begin and end, and the document's end
        if is_read:
            raise _error(event.start_mark, "a second document begins here")
        value, is_read = _value(next(events), events, 0), True
    return value


def _value(event: Any, events: Iterator[Any], depth: int) -> Any:
    """Read the value that begins with an event."""
    if isinstance(event, yaml.AliasEvent) or event.anchor is not None or event.tag is not None:
        raise _error(event.start_mark, "put the text in quotes: &, * and ! before it have a meaning in YAML")
    if depth > DEPTH_MAX:
        raise _error(event.start_mark, f"nested deeper than {DEPTH_MAX} levels")
    if isinstance(event, yaml.ScalarEvent):
        return _scalar(event)
    members = _members(events)
    if isinstance(event, yaml.SequenceStartEvent):
        return [_value(item, events, depth + 1) for item in members]
    read: dict[str, Any] = {}
    for key in members:
        _value(key, events, depth + 1)  # refuses what is refused
        if not isinstance(key, yaml.ScalarEvent):
            raise _error(key.start_mark, "expected `name: value`")
        if key.value in read:
            name = "a name" if event.flow_style else key.value  # a password may begin with a bracket
            raise _error(key.start_mark, f"{name} is there twice")
        read[key.value] = _value(next(events), events, depth + 1)
    return read


def _members(events: Iterator[Any]) -> Iterator[Any]:
    """Iterate over the first events of the members of a list or map, up to its end."""
    while not isinstance(event := next(events), yaml.CollectionEndEvent):
        yield event


def _scalar(event: Any) -> str | None:
    if event.style in ("|", ">"):
        raise _error(event.start_mark, "put the text in quotes: block texts are not read here")
    return None if event.style is None and event.value in _NONE else str(event.value)


def _error(mark: Any, reason: str) -> FormatError:
    return FormatError(f"line {mark.line + 1}: {reason}")
