"""The recall handle: a broker returns it for a timed message, and requires it to recall the message.

It is URL-safe Base64, padded, of five words between single blanks::

    v1 topic broker_name time unique_id

The time, ms since the epoch, lies in the second in which the broker keeps the message. Decoding also accepts
a handle without padding, and ignores anything after the fifth word.

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
"""Longest handle in an error's text, in characters; longer ones are cut."""


class RecallHandle(NamedTuple):
    """The identity of a message to be recalled.

    Attributes:
        topic: the topic to which the message would be delivered.
        time: the text of the time, a number unless the handle was made up.
        unique_id: the message's unique id.
    """

    topic: str
    broker_name: str
    time: str
    unique_id: str

    def __str__(self) -> str:
        """Encode the handle."""
        return base64.urlsafe_b64encode(_BLANK.join((VERSION, *self)).encode()).decode()


def parse(text: str) -> RecallHandle:
    """Decode a handle. Raises FormatError, which shows it and says where handles come from."""
    words = _decoded(text).rstrip(_BLANK).split(_BLANK)
    if len(words) < _WORD_COUNT or words[0] != VERSION:
        raise FormatError(
            f"{text[:_SHOWN_LENGTH]!r} is not a recall handle: give the one from the response to the send"
        )
    return RecallHandle(*words[1:_WORD_COUNT])


def _decoded(text: str) -> str:
    """Decode the Base64 of a handle; returns an empty text if it is not Base64."""
    found = _BASE64.fullmatch(text)
    if found is None or (found[2] and len(text) % _GROUP) or len(found[1]) % _GROUP == 1:
        return ""
    data = base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % _GROUP))
    return data.decode("utf-8", "replace")
