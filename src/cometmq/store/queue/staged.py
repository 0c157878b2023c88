"""Queue entries of what was appended, until somebody looks at the queues.

Messages of one batch go to many queues, few to each. To put them there one by one would cost more than all
the rest of a send in bulk, and more the more queues there are, for they are in no cache of the processor. So
entries are collected, first in the order of the log and then by queue in runs, and put by the run. Who asks
for a queue has those of that one put, whatever the others have.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np

from cometmq import kernels
from cometmq.format.queue_entry import SIZE
from cometmq.kernels.ops import RUN_PREVIOUS, RUN_QUEUE, Longs, Runs
from cometmq.kernels.sends.rows import QUEUE
from cometmq.store.queue.consume_queue import ConsumeQueue

CAPACITY: Final = 8_192
"""So many entries wait in the order of the log: they fit into a cache of the processor."""
PLACES_MIN: Final = 256
"""For runs; and for each queue there is one, or nearly, so that most runs are full as they are put."""
RUN_MIN, RUN_MAX = 13, 255
"""Entries that a run has room for: no round number of bytes, or a cache had the ends of all in few places."""
ROOM: Final = 851_968
"""Entries that all runs together have room for (17 MB), within these limits."""
PUT_COUNT: Final = 1_024
"""Where there is no place for a run, half of all are put, the oldest ones, or so many: half a millisecond."""
FEW: Final = 24
"""So many entries are put faster one by one: somebody reads right behind the producer."""
RUNS_FEW: Final = 256
"""So many runs are put together, whoever asks: where consumers keep up each will be asked for."""

_PUT: Final = -1
"""In place of the number of the queue whose run was put before older ones."""


class Staged:
    """Entries that wait.

    ::

        runs    by queue, can be read
        rows    0 ──── can be read ──── count ──── not yet ──── end ──── free ────

    Attributes:
        queues: by their numbers; those that are gone are passed over.
        rows: the newest entries in the order of the log, a row of numbers each (see ``kernels.sends.rows``);
            kernels fill it from ``end`` on.
        count: how many rows may be read; whoever lets more be read moves it on.
        end: how many rows wait in all; the others are not on the disk yet, under SYNC_FLUSH.
        grouped: how many runs are kept, those that were put before older ones among them.
    """

    def __init__(self, queues: Mapping[int, ConsumeQueue]) -> None:
        self.count = self.end = self.grouped = self._put_early = 0
        self.queues = queues
        self.rows: Longs = np.empty((0, 5), np.int64)
        self._runs = _no_runs(PLACES_MIN, 0)

    def with_room(self, count: int) -> Longs:
        """Give the rows, with room for ``count`` more; group what can be read if need be."""
        if self.end + count > len(self.rows):
            self._group()
            room = max(CAPACITY, self.end + count)
            if room > len(self.rows):
                waiting, self.rows = self.rows[: self.end], np.empty((room, 5), np.int64)
                self.rows[: self.end] = waiting
        return self.rows

    def add(self, rows: Longs) -> None:
        """Take entries that can be read; those that wait are of later messages."""
        self.with_room(len(rows))
        begin, end = self.count, self.end
        self.count, self.end = begin + len(rows), end + len(rows)
        self.rows[self.count : self.end] = self.rows[begin:end]
        self.rows[begin : self.count] = rows

    def put(self) -> None:
        """Put what can be read into its queues."""
        if self._are_few():
            self._put_each()
        else:
            self._group()
            self._put_runs(self.grouped)

    def put_queue(self, number: int) -> None:
        """Put what can be read of one queue: of many others nobody may ask for theirs."""
        if self._are_few():
            self._put_each()
            return
        self._group()
        if self.grouped <= RUNS_FEW:
            self._put_runs(self.grouped)
            return
        for place in reversed(self._take_places(number)):
            self._put_places(place, place + 1)
            self._runs.rows[place, RUN_QUEUE] = _PUT
            self._put_early += 1
        if self._put_early == self.grouped:
            self._put_runs(self.grouped)

    def waiting(self) -> list[ConsumeQueue]:
        """Give the queues of what can be read, by the age of their runs."""
        self._group()
        places = np.arange(*self._runs.window.tolist()) % len(self._runs.rows)
        numbers = dict.fromkeys(self._runs.rows[places, RUN_QUEUE].tolist())
        return [queue for number in numbers if (queue := self.queues.get(number)) is not None]

    def _are_few(self) -> bool:
        return not self.grouped and self.count <= FEW

    def _put_each(self) -> None:
        for number, queue_offset, physical_offset, size, tags_code in self.rows[: self.count].tolist():
            queue = self.queues.get(number)
            if queue is not None:
                queue.put(queue_offset, physical_offset, size, tags_code)
        self._drop_rows()

    def _group(self) -> None:
        """Move what can be read to its queues' runs."""
        rows = self.rows[: self.count]
        while len(rows):
            rows = rows[kernels.current().group_entries(rows, self._runs) :]
            first, end = self._runs.window.tolist()
            self.grouped = end - first
            if len(rows):
                self._make_place(int(rows[0, QUEUE]))
        self._drop_rows()

    def _drop_rows(self) -> None:
        """Forget the rows that can be read."""
        if not self.count:
            return
        waiting = self.rows[self.count : self.end]
        self.rows[: len(waiting)] = waiting
        self.count, self.end = 0, len(waiting)

    def _make_place(self, queue: int) -> None:
        """Let the queue of a number begin a run: put the oldest ones, or all, and make a larger ring."""
        places, known = len(self._runs.rows), len(self._runs.newest)
        if queue < known and len(self.queues) <= _queues_max(places):
            self._put_runs(min(PUT_COUNT, self.grouped // 2))
            return
        self._put_runs(self.grouped)
        while len(self.queues) > _queues_max(places):
            places *= 2
        self._runs = _no_runs(places, max(queue + 1, 2 * known))

    def _put_runs(self, count: int) -> None:
        """Put so many runs, the oldest ones."""
        first, places = int(self._runs.window[0]), len(self._runs.rows)
        begin = first % places
        end = begin + count
        self._runs.window[0] = first + count
        self.grouped -= count
        self._put_places(begin, min(end, places))
        self._put_places(0, max(0, end - places))

    def _take_places(self, number: int) -> list[int]:
        """Give where the runs of a queue are, the newest first; what comes then begins another."""
        _, rows, _, newest, window = self._runs
        places: list[int] = []
        if number < len(newest):
            run, newest[number] = int(newest[number]), -1
            while run >= window[0]:
                places.append(run % len(rows))
                run = int(rows[places[-1], RUN_PREVIOUS])
        return places

    def _put_places(self, begin: int, end: int) -> None:
        """Put the runs at some places that follow one another."""
        length, rows, entries, *_ = self._runs
        data = entries.data
        for place, (number, queue_offset, count, physical_end, _) in enumerate(
            rows[begin:end].tolist(), begin
        ):
            queue = self.queues.get(number)
            self._put_early -= number == _PUT
            if queue is not None:
                at = place * length * SIZE
                queue.put_new(queue_offset, data[at : at + count * SIZE], physical_end)


def _queues_max(places: int) -> int:
    """Say for how many queues so many places do: with a few less than queues most runs are still full."""
    return places + places // 32


def _no_runs(places: int, queues: int) -> Runs:
    return Runs.empty(places, min(max(ROOM // places, RUN_MIN), RUN_MAX), queues)
