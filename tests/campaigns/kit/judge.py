"""Judges what became of acknowledged messages: each must be where it was said to be, written by one master.

An answer to a send names the broker and the message's place in the log. Once all is healed, one log is left,
with the epochs of its masters, if there were several. So each acknowledgement must be a record of that log,
at its place, and of each epoch one broker alone may have acknowledged and written.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Placed(NamedTuple):
    """A message at its place: as a send was answered SEND_OK, or as it was read.

    Attributes:
        key: of the message.
        broker: ``ip:port`` of the broker that stored it.
        physical_offset: of its record.
    """

    key: str
    broker: str
    physical_offset: int
    queue_id: int
    queue_offset: int


class Epoch(NamedTuple):
    """An epoch of the last log, and its place: from ``begin`` to before ``end``."""

    epoch: int
    begin: int
    end: int


class Verdict(NamedTuple):
    """What was wrong, and what it cost.

    Attributes:
        lost: acknowledged messages that are not in the log.
        moved: those that are in the log, but not where the answer said.
        shared: epochs of which more than one broker acknowledged or wrote messages, with these brokers.
        disordered: keys that stand before an older one of the same queue.
        doubled: messages that are in the log more than once, as their producer sent them again.
    """

    acknowledged: int
    lost: list[str]
    moved: list[str]
    shared: dict[int, list[str]]
    disordered: list[str]
    doubled: int

    def __str__(self) -> str:
        text = f"{self.acknowledged:,} acknowledged, {len(self.lost)} lost, {self.doubled:,} doubled"
        return text if self.is_right else f"{text}: WRONG: {self!r}"

    @property
    def is_right(self) -> bool:
        """Whether nothing was lost or moved, and each epoch had one master."""
        return not (self.lost or self.moved or self.shared or self.disordered)


def judge(acknowledged: Sequence[Placed], found: Sequence[Placed], epochs: Sequence[Epoch] = ()) -> Verdict:
    """Judge a log; without epochs, as if any broker might write at any time.

    Keys of one queue are sent in their alphabetical order.
    """
    at = {(one.queue_id, one.queue_offset): one for one in found}
    keys = {one.key for one in found}
    lost = [one.key for one in acknowledged if one.key not in keys]
    moved = [one.key for one in acknowledged if one.key in keys and not _is_there(one, at)]
    brokers: dict[int, set[str]] = defaultdict(set)
    for message in (*acknowledged, *found) if epochs else ():
        brokers[_epoch_of(message.physical_offset, epochs)].add(message.broker)
    shared = {epoch: sorted(several) for epoch, several in brokers.items() if len(several) > 1}
    return Verdict(len(acknowledged), lost, moved, shared, _disordered(found), len(found) - len(keys))


def _is_there(one: Placed, at: dict[tuple[int, int], Placed]) -> bool:
    found = at.get((one.queue_id, one.queue_offset))
    return found is not None and (found.key, found.physical_offset) == (one.key, one.physical_offset)


def _epoch_of(offset: int, epochs: Sequence[Epoch]) -> int:
    """Return the epoch of an offset; -1 for one that belongs to none."""
    return next((epoch.epoch for epoch in epochs if epoch.begin <= offset < epoch.end), -1)


def _disordered(found: Iterable[Placed]) -> list[str]:
    """Return the keys whose first copy stands before that of an older one."""
    newest: dict[int, str] = {}
    seen: set[str] = set()
    disordered = []
    for one in sorted(found, key=lambda one: (one.queue_id, one.queue_offset)):
        if one.key in seen:
            continue
        seen.add(one.key)
        if one.key < newest.get(one.queue_id, ""):
            disordered.append(one.key)
        newest[one.queue_id] = max(one.key, newest.get(one.queue_id, ""))
    return disordered
