"""Handle rows that are no messages, by the option ``onBadRow``: fail, drop, or send a dead letter.

A dead letter is a message in the topic that the option ``deadLetterTopic`` names. Its tag is the kind of
error, its body a JSON object:

===========  ===================================================================================
member       meaning
===========  ===================================================================================
reason       why the row is no message
body         the row's body in Base64, null where it is null, at most ``BODY_SHOWN_MAX`` bytes
body_size    how long the row's body is, in bytes
columns      the row's other columns, as text, at most ``COLUMN_SHOWN_MAX`` characters each
===========  ===================================================================================
"""

from base64 import b64encode
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, Final

import msgspec

from cometmq.errors import CometMQError
from cometmq.format.properties import IDEMPOTENCE_KEY
from cometmq.logs import get_logger
from cometmq.message import Message
from cometmq.spark.sink.row_keys import RowKeys

BODY_SHOWN_MAX: Final = 1024 * 1024
COLUMN_SHOWN_MAX: Final = 4096
LOGGED_MAX: Final = 20
"""Rows that a task logs; it counts all."""

log = get_logger(__name__)


class OnBadRow(StrEnum):
    """What happens to a row that is no message."""

    FAIL = "fail"
    DROP = "drop"
    DEAD_LETTER = "deadLetter"


class BadRows:
    """The rows of one task that are no messages.

    Args:
        dead_letter_topic: where they are sent; None if they are only counted.
        write: as for ``RowKeys``, so that brokers store the dead letters of a repeated task once.

    Attributes:
        count: the number of rows.
    """

    def __init__(self, dead_letter_topic: str | None, write: str) -> None:
        self._topic = dead_letter_topic
        self._keys = RowKeys(f"{write} dead letters")
        self._letters: list[Message] = []
        self.count = 0

    def add(self, row: Mapping[str, Any], error: CometMQError) -> None:
        """Count a row, log it, and build its dead letter."""
        self.count += 1
        if self.count <= LOGGED_MAX:
            log.warning("a row makes no message: %s: %s", error, _columns(row))
        if self._topic is not None:
            body = msgspec.json.encode(_described(row, error))
            key = self._keys.key(row, (body,))
            letter = Message(self._topic, body, type(error).__name__, properties={IDEMPOTENCE_KEY: key})
            self._letters.append(letter)

    def take_letters(self) -> list[Message]:
        """Return and remove the dead letters that are not sent yet."""
        letters, self._letters = self._letters, []
        return letters


def _described(row: Mapping[str, Any], error: CometMQError) -> dict[str, Any]:
    body = row.get("body")
    data = body.encode() if isinstance(body, str) else body
    return {
        "reason": str(error),
        "body": None if data is None else b64encode(data[:BODY_SHOWN_MAX]).decode(),
        "body_size": len(data or b""),
        "columns": _columns(row),
    }


def _columns(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns that are not null, without the body, each as text of limited length."""
    return {
        name: str(value)[:COLUMN_SHOWN_MAX]
        for name, value in row.items()
        if name != "body" and value is not None
    }
