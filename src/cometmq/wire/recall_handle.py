"""The recall handle: what a broker gives for a timed message, and wants to see when that is taken back.

It is URL-safe Base64, padded, of five words between single blanks::

    v1 topic broker_name time unique_id

The time lies in the second in which the broker keeps the message: ms since the epoch. Who reads a handle
takes it without padding, too, and passes over what comes behind the fifth word.

Source: RocketMQ ``common/producer/RecallMessageHandle.java``.
"""

import base64
import re
from typing import Final, NamedTuple

from cometmq.errors import FormatError

VERSION: Final = "v1"
_BLANK: Final = " "
_WORD_COUNT: Final = 5
_BASE64: Final = re.compile(r"([A-Za-z0-9_-]*)(={0,2})")
_GROUP: Final = 4
_SHOWN_LENGTH: Final = 60
"""Longer handles are cut in an error's text, characters."""


class RecallHandle(NamedTuple):
    """Which message is to be taken back.

    Attributes:
        topic: the one that the message is for.
        time: as the handle has it, a number unless somebody made it up.
        unique_id: the message's unique id.
    """

    topic: str
    broker_name: str
    time: str
    unique_id: str

    def __str__(self) -> str:
        """Give the handle as it is passed around."""
        return base64.urlsafe_b64encode(_BLANK.join((VERSION, *self)).encode()).decode()


def parse(text: str) -> RecallHandle:
    """Read a handle. Raises FormatError that shows it, and says where handles come from."""
    words = _decoded(text).rstrip(_BLANK).split(_BLANK)
    if len(words) < _WORD_COUNT or words[0] != VERSION:
        raise FormatError(
            f"{text[:_SHOWN_LENGTH]!r} is no recall handle: give the one that the answer to the send has"
        )
    return RecallHandle(*words[1:_WORD_COUNT])


def _decoded(text: str) -> str:
    """Give what a handle says; nothing if it is no Base64."""
    found = _BASE64.fullmatch(text)
    if found is None or (found[2] and len(text) % _GROUP) or len(found[1]) % _GROUP == 1:
        return ""
    data = base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % _GROUP))
    return data.decode("utf-8", "replace")
