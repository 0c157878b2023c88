"""Log what becomes of messages whose handlers fail: delivered again, and when, dropped, or dead letters.

::

    WARNING a handler of topic 'orders', group 'billing' failed: message 7F…01, keys '42', try 1 of 17:
            delivered again in about 10 s
    ERROR   a dead letter in topic %DLQ%billing: message 7F…01 of topic 'orders', keys '42', try 17 of 17;
            its handler raised ValueError('no such customer')

The times are those of RocketMQ's default delay levels; a broker may have others.
"""

import logging
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final, NamedTuple

from cometmq.client.handling.outcome import DeadLetter, Retry
from cometmq.format.layout import DLQ_PREFIX
from cometmq.logs import get_logger
from cometmq.message import StoredMessage

NAMED_MAX: Final = 10
"""Most messages of a batch that a line names; a dead letter has a line of its own."""
REASON_MAX: Final = 1_000
"""Longest text of what a handler raised, in characters."""
DEAD: Final = "becomes a dead letter"

_log = get_logger(__name__)


class FailureLog(NamedTuple):
    """The log of one consumer.

    Attributes:
        retries_max: a message that fails after so many retries becomes a dead letter; None for never.
    """

    group: str
    retries_max: int | None

    def is_last_try(self, message: StoredMessage) -> bool:
        """Return whether a message becomes a dead letter if its handler fails now."""
        return self.retries_max is not None and message.reconsume_times >= self.retries_max

    def failed(
        self, messages: Sequence[StoredMessage], error: Exception, outlook: Callable[[StoredMessage], str]
    ) -> None:
        """Log a failure; ``Retry`` as info, as it was asked for. ``DeadLetter`` has ``dead_letter``.

        Args:
            outlook: returns what becomes of a message.
        """
        if isinstance(error, DeadLetter):
            return
        was_asked_for = isinstance(error, Retry)
        level = logging.INFO if was_asked_for else logging.WARNING
        if not _log.isEnabledFor(level):
            return
        named = [
            f"message {one.message_id}{_keys(one)}, {self._try(one)}: {outlook(one)}"
            for one in islice(messages, NAMED_MAX)
        ]
        if len(messages) > NAMED_MAX:
            named.append(f"and {len(messages) - NAMED_MAX} more")
        _log.log(
            level,
            "a handler of topic %r, group %r %s: %s",
            messages[0].topic,
            self.group,
            f"raised {error!r}" if was_asked_for else "failed",
            "; ".join(named),
            exc_info=None if was_asked_for else error,
        )

    def dropped(self, messages: Sequence[StoredMessage], error: Exception) -> None:
        """Log the failure of messages that are not delivered again, as they were broadcast."""
        for message in messages:
            _log.warning(
                "dropped, as broadcasting has neither retries nor dead letters: message %s of topic %r%s, "
                "group %r; its handler raised %s",
                message.message_id, message.topic, _keys(message), self.group, _reason(error),
                exc_info=None if isinstance(error, Retry | DeadLetter) else error,
            )  # fmt: skip

    def dead_letter(self, message: StoredMessage, error: Exception) -> None:
        """Log that a broker has stored a message as dead letter."""
        _log.error(
            "a dead letter in topic %s%s: message %s of topic %r%s, %s; its handler raised %s",
            DLQ_PREFIX, self.group, message.message_id, message.topic, _keys(message), self._try(message),
            _reason(error),
        )  # fmt: skip

    def _try(self, message: StoredMessage) -> str:
        of = "without limit" if self.retries_max is None else f"of {self.retries_max + 1}"
        return f"try {message.reconsume_times + 1} {of}"


def _reason(error: Exception) -> str:
    return repr(error)[:REASON_MAX]


def _keys(message: StoredMessage) -> str:
    return f", keys {', '.join(map(repr, message.keys))}" if message.keys else ""


def again_in(delay_ms: int) -> str:
    """Return when a message is delivered again."""
    for unit, unit_ms in (("h", 3_600_000), ("min", 60_000)):
        if delay_ms >= unit_ms:
            return f"delivered again in about {delay_ms / unit_ms:g} {unit}"
    return f"delivered again in about {delay_ms / 1000:g} s"
