"""Judges what gRPC clients handled while their proxy and their broker were killed."""

from typing import NamedTuple


class Handling(NamedTuple):
    """One time that a consumer got a message.

    Attributes:
        number: which message it is, whichever of its sends stored it.
        message_id: which send stored it.
        at_ms: when it came, by the clock that ``due_ms`` is of.
        due_ms: until when it was hidden from others.
    """

    number: int
    message_id: str
    at_ms: int
    due_ms: int


class Verdict(NamedTuple):
    """What came of the messages.

    Attributes:
        sent: messages whose sends were confirmed.
        handled: how often messages were handled, duplicates included.
        lost: messages whose sends were confirmed, and that nobody got.
        stored_twice: handled once more since an earlier send, which was not confirmed, had stored them, too.
        unconfirmed: handled once more since no acknowledgement was confirmed in their time.
        unexplained: handled once more for none of these reasons.
    """

    sent: int
    handled: int
    lost: list[int]
    stored_twice: int
    unconfirmed: int
    unexplained: list[Handling]

    @property
    def is_right(self) -> bool:
        """Whether nothing was lost, and each duplicate has its reason."""
        return not self.lost and not self.unexplained


class History:
    """What happened, in the order of time."""

    def __init__(self) -> None:
        self.sent: set[int] = set()
        self.handled: list[Handling] = []
        self.numbers: set[int] = set()
        self._confirmed: set[Handling] = set()

    def handle(self, handling: Handling) -> None:
        """Record that a consumer got a message."""
        self.handled.append(handling)
        self.numbers.add(handling.number)

    def confirm(self, handling: Handling) -> None:
        """Record that its acknowledgement was confirmed."""
        self._confirmed.add(handling)

    def judge(self) -> Verdict:
        """Return the verdict."""
        last: dict[str, Handling] = {}
        numbers: set[int] = set()
        stored_twice = unconfirmed = 0
        unexplained = []
        for handling in self.handled:
            before = last.get(handling.message_id)
            if before is not None and (before in self._confirmed or handling.at_ms < before.due_ms):
                unexplained.append(handling)
            elif before is not None:
                unconfirmed += 1
            elif handling.number in numbers:
                stored_twice += 1
            last[handling.message_id] = handling
            numbers.add(handling.number)
        lost = sorted(self.sent - numbers)
        return Verdict(len(self.sent), len(self.handled), lost, stored_twice, unconfirmed, unexplained)
