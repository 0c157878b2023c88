"""The receipt handles of popped messages: which is the present one, and whether it has expired.

Brokers confirm an acknowledgement that comes too late, and deliver the message again all the same. So
the client measures the time. A pop's answer has the broker's time, and from then on the local monotonic
clock shows how much has passed there, at least: the answer was on its way for a while. A handle that has
expired by this measure has expired at the broker, whatever the machines' clocks show.
"""

from collections.abc import Container
from typing import Final, NamedTuple

from cometmq.arguments import ArgumentKind
from cometmq.errors import ReceiptExpired
from cometmq.format.pop.names import RetryFlag
from cometmq.format.pop.receipt import ReceiptHandle, parse_receipt
from cometmq.format.properties import POP_CK
from cometmq.io.clock import Clock
from cometmq.message import MessageQueue, StoredMessage

POPPED: Final = ArgumentKind(
    "a StoredMessage that was received by a pop: it has the property POP_CK",
    lambda value: isinstance(value, StoredMessage),
    lambda value: POP_CK in value.properties,
)
"""The kind of an argument that is a popped message."""


CHANGED_MIN: Final = 1024
"""So many changed handles are stored before those that have expired are dropped."""


class _Changed(NamedTuple):
    """The present handle of a message whose invisible time was changed, and the one that it was popped by."""

    first: ReceiptHandle
    present: ReceiptHandle


def is_from(message: StoredMessage, queues: Container[MessageQueue]) -> bool:
    """Return whether a message was popped from one of some queues itself, and not from the retry topic."""
    handle = parse_receipt(message.properties[POP_CK])
    queue = MessageQueue(message.topic, handle.broker_name, handle.queue_id)
    return handle.retry_flag is RetryFlag.NONE and queue in queues


class PopReceipts:
    """The receipt handles of one consumer's messages."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._broker_clocks: dict[str, int] = {}
        """By broker: its time in ms since the epoch when the local monotonic clock shows 0."""
        self._changed: dict[str, _Changed] = {}
        self._changed_max = CHANGED_MIN

    def set_time(self, broker_name: str, now_ms: int) -> None:
        """Set a broker's time, ms since the epoch, by an answer that has just come."""
        self._broker_clocks[broker_name] = now_ms - self._clock.monotonic_ms()

    def find(self, message: StoredMessage) -> ReceiptHandle:
        """Return the present handle of a popped message.

        Raises:
            ReceiptExpired: its invisible time has passed.
            FormatError: its property POP_CK is not a handle.
        """
        handle = self._handle(message)
        if (over_ms := self._over_ms(handle)) >= 0:
            raise ReceiptExpired(
                f"message {message.message_id} of topic {message.topic!r}: its invisible time of "
                f"{handle.invisible_ms} ms passed {over_ms} ms ago, so it is delivered again; receive with a "
                "longer invisible_ms, or prolong it by change_invisible in time"
            )
        return handle

    def is_expired(self, message: StoredMessage) -> bool:
        """Return whether the invisible time of a popped message has passed. Raises FormatError."""
        return self._over_ms(self._handle(message)) >= 0

    def change(self, message: StoredMessage, handle: ReceiptHandle) -> None:
        """Replace the handle of a popped message."""
        text = message.properties[POP_CK]
        self._changed[text] = _Changed(parse_receipt(text), handle)
        if len(self._changed) > self._changed_max:
            self._drop_expired()

    def forget(self, message: StoredMessage) -> None:
        """Drop what is known of an acknowledged message."""
        self._changed.pop(message.properties[POP_CK], None)

    def age_ms(self, message: StoredMessage) -> int:
        """Return how long ago a message was popped; 0 if its broker's time is not known."""
        handle = parse_receipt(message.properties[POP_CK])
        broker_clock = self._broker_clocks.get(handle.broker_name)
        return 0 if broker_clock is None else self._clock.monotonic_ms() + broker_clock - handle.pop_time_ms

    def _handle(self, message: StoredMessage) -> ReceiptHandle:
        text = message.properties[POP_CK]
        changed = self._changed.get(text)
        return parse_receipt(text) if changed is None else changed.present

    def _over_ms(self, handle: ReceiptHandle) -> int:
        """Return since when a handle has expired, in ms; negative before, or without its broker's time."""
        broker_clock = self._broker_clocks.get(handle.broker_name)
        if broker_clock is None:
            return -1
        return self._clock.monotonic_ms() + broker_clock - handle.pop_time_ms - handle.invisible_ms

    def _drop_expired(self) -> None:
        """Drop what is known of messages that can be acknowledged no more."""
        self._changed = {
            text: changed
            for text, changed in self._changed.items()
            if any(self._over_ms(handle) < 0 for handle in changed)
        }
        self._changed_max = max(CHANGED_MIN, 2 * len(self._changed))
