"""What was sent and handled in a soak: how much of it is late, came again, or came out of order."""

from collections import Counter, defaultdict


class Ledger:
    """Keeps what a verdict needs; a message is known by its number."""

    def __init__(self) -> None:
        self.sent = 0
        self.failed = 0
        self.handled = 0
        self.duplicates = 0
        self.disordered = 0
        self._waiting: dict[int, tuple[float, str]] = {}
        """When and whereto each message was sent that was not handled yet."""
        self._done: set[int] = set()
        self._next: dict[str, int] = defaultdict(int)
        """The queue offset that must come next in each ordered queue, or one that came before."""

    def note_sent(self, number: int, at: float, queue: str = "") -> None:
        """Record that a broker has a message."""
        self.sent += 1
        if number not in self._done:
            self._waiting[number] = at, queue

    def note_handled(self, number: int) -> None:
        """Record that a message was handled."""
        self.handled += 1
        self.duplicates += number in self._done
        self._done.add(number)
        self._waiting.pop(number, None)

    def note_in_order(self, queue: str, queue_offset: int) -> None:
        """Record that a message of an ordered queue was handled: none before it may be missing."""
        self.disordered += queue_offset > self._next[queue]
        self._next[queue] = max(self._next[queue], queue_offset + 1)

    def waiting(self, sent_before: float = float("inf")) -> int:
        """Return how many messages that were sent before a time were not handled."""
        return sum(at < sent_before for at, _ in self._waiting.values())

    def waiting_in(self, sent_before: float = float("inf")) -> str:
        """Return of these how many are in which queue."""
        queues = Counter(queue for at, queue in self._waiting.values() if at < sent_before)
        return ", ".join(f"{count} in {queue}" for queue, count in queues.most_common())
