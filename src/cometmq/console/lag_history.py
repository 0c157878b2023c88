"""The lags of groups by queue, as the console sampled them: a bounded number, the last ones."""

from array import array
from collections.abc import Mapping
from typing import Final, NamedTuple

from cometmq.message import MessageQueue

SAMPLES: Final = 360
"""Samples that are kept: three hours, two a minute."""
QUEUES_MAX: Final = 10_000
"""Most queues of groups that are kept: with all samples 29 MB."""
UNKNOWN: Final = -1


class GroupLags(NamedTuple):
    """The lags of a group over time, the oldest first; None where a lag is not known.

    Attributes:
        times: of the samples, ms since the epoch.
        is_whole: whether all its queues are among those that are kept.
    """

    times: list[int]
    queues: dict[MessageQueue, list[int | None]]
    is_whole: bool

    @property
    def total(self) -> list[int | None]:
        """The lag of all queues at each time."""
        columns = zip(*self.queues.values(), strict=True) if self.queues else iter(())
        known = [[lag for lag in column if lag is not None] for column in columns]
        return [sum(lags) if lags else None for lags in known]


class LagHistory:
    """Keeps the last samples of the lags of all groups.

    Args:
        samples: how many are kept.
        queues_max: of how many queues; a queue counts for each group that consumes it.
    """

    def __init__(self, samples: int = SAMPLES, queues_max: int = QUEUES_MAX) -> None:
        self._samples = samples
        self._queues_max = queues_max
        self._taken = 0
        self._times = array("q", [0]) * samples
        self._series: dict[str, dict[MessageQueue, array[int]]] = {}
        self._seen: dict[tuple[str, MessageQueue], int] = {}
        self._cut: frozenset[str] = frozenset()

    def add(self, time_ms: int, lags: Mapping[str, Mapping[MessageQueue, int]]) -> None:
        """Add a sample in the place of the oldest one."""
        slot = self._taken % self._samples
        self._times[slot] = time_ms
        self._forget(slot)
        cut = set()
        for group, of_queues in sorted(lags.items()):
            for queue, lag in of_queues.items():
                series = self._series_of(group, queue)
                if series is None:
                    cut.add(group)
                else:
                    series[slot] = lag
                    self._seen[group, queue] = self._taken
        self._cut = frozenset(cut)
        self._taken += 1

    def of_group(self, group: str) -> GroupLags:
        """Return the lags of a group."""
        first = max(0, self._taken - self._samples)
        slots = [number % self._samples for number in range(first, self._taken)]
        queues = {
            queue: [None if series[slot] == UNKNOWN else series[slot] for slot in slots]
            for queue, series in sorted(self._series.get(group, {}).items())
        }
        return GroupLags([self._times[slot] for slot in slots], queues, group not in self._cut)

    def _series_of(self, group: str, queue: MessageQueue) -> "array[int] | None":
        """Return the lags of a queue; None if there is no room for it."""
        known = self._series.setdefault(group, {})
        if queue not in known:
            if len(self._seen) >= self._queues_max:
                return None
            known[queue] = array("q", [UNKNOWN]) * self._samples
        return known[queue]

    def _forget(self, slot: int) -> None:
        """Clear the place of a new sample, and forget queues that no kept sample has."""
        for group, known in list(self._series.items()):
            for queue, series in list(known.items()):
                series[slot] = UNKNOWN
                if self._seen[group, queue] <= self._taken - self._samples:
                    del known[queue], self._seen[group, queue]
            if not known:
                del self._series[group]
