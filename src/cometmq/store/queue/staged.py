"""Staged entries: queue entries of appended messages that are not in their queues yet.

Messages of one batch go to many queues, few to each. Appending their entries one by one would cost more than
the rest of a bulk send, and the more queues the more, as they miss the processor's caches. So entries are
collected, first in the order of the log, then by queue in runs, and appended by the run. Looking a queue up
appends that queue's entries only.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import Final

import numpy as np

from cometmq import kernels
from cometmq.format.queue_entry import SIZE
from cometmq.kernels.arrays import Longs
from cometmq.kernels.ops import RUN_PREVIOUS, RUN_QUEUE, Runs
from cometmq.kernels.sends.rows import QUEUE, TAGS_CODE
from cometmq.store.queue.consume_queue import ConsumeQueue

CAPACITY: Final = 8_192
"""Number of rows in the order of the log: they fit into a processor's cache."""
PLACES_MIN: Final = 256
"""Least number of places for runs; nearly one for each queue, so that most runs are full when appended."""
RUN_MIN, RUN_MAX = 13, 255
"""Capacity of a run in entries: no round number of bytes, or all ends would share few sets of a cache."""
ROOM: Final = 851_968
"""Entries that all runs together have room for (17 MB), within these limits."""
PUT_COUNT: Final = 1_024
"""Number of runs, the oldest, or half of all, that are appended to free places: half a millisecond."""
FEW: Final = 24
"""Number of entries that are faster to append one by one: a consumer reads right behind the producer."""
RUNS_FEW: Final = 256
"""Number of runs up to which all are appended at once: where consumers keep up, each will be read."""

_COLUMNS: Final = TAGS_CODE + 1
"""Numbers of a row, 8 bytes each."""
_ROW: Final = Struct(f"{_COLUMNS}q")
_PUT: Final = -1
"""Queue number of a run that was appended before older ones."""


class Staged:
    """The staged entries, as rows and runs.

    ::

        runs    by queue, readable
        rows    0 ──── readable ──── count ──── not yet ──── end ──── free ────

    Attributes:
        queues: the queues by number; entries of deleted ones are dropped.
        rows: ``int64[n, 5]``, the newest entries in the order of the log (see ``kernels.sends.rows``);
            kernels write to it from ``end`` on.
        count: number of readable rows; the dispatcher advances it.
        end: number of all rows; under SYNC_FLUSH those behind ``count`` are not on the disk yet.
        grouped: number of runs, including those that were appended before older ones.
    """

    def __init__(self, queues: Mapping[int, ConsumeQueue]) -> None:
        self.count = self.end = self.grouped = self._put_early = 0
        self.queues = queues
        self.rows: Longs = np.empty((0, _COLUMNS), np.int64)
        self._runs = _no_runs(PLACES_MIN, 0)

    def with_room(self, count: int) -> Longs:
        """Return the rows with room for ``count`` more; group the readable ones if necessary."""
        if self.end + count > len(self.rows):
            self._group()
            room = max(CAPACITY, self.end + count)
            if room > len(self.rows):
                waiting, self.rows = self.rows[: self.end], np.empty((room, _COLUMNS), np.int64)
                self.rows[: self.end] = waiting
        return self.rows

    def add(self, rows: Longs | Sequence[tuple[int, ...]]) -> None:
        """Add readable rows (n x 5) before those not yet readable, which are of later messages."""
        if self.end + len(rows) > len(self.rows):
            self.with_room(len(rows))
        begin, end = self.count, self.end
        self.count, self.end = begin + len(rows), end + len(rows)
        if begin < end:
            self.rows[self.count : self.end] = self.rows[begin:end]
        data, at = self.rows.data, begin * _ROW.size
        for row in rows:  # packed, as numpy takes thrice as long to convert a few
            _ROW.pack_into(data, at, *row)
            at += _ROW.size

    def put(self) -> None:
        """Append all readable entries to their queues."""
        if self._are_few():
            self._put_each()
        else:
            self._group()
            self._put_runs(self.grouped)

    def put_queue(self, number: int) -> None:
        """Append the readable entries of one queue, and of others only where that is cheaper."""
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
        """Return the queues with readable entries, by the age of their runs."""
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
        """Move the readable rows to their queues' runs."""
        rows = self.rows[: self.count]
        while len(rows):
            rows = rows[kernels.loading.ops.group_entries(rows, self._runs) :]
            first, end = self._runs.window.tolist()
            self.grouped = end - first
            if len(rows):
                self._make_place(int(rows[0, QUEUE]))
        self._drop_rows()

    def _drop_rows(self) -> None:
        """Remove the readable rows."""
        if not self.count:
            return
        waiting = self.rows[self.count : self.end]
        self.rows[: len(waiting)] = waiting
        self.count, self.end = 0, len(waiting)

    def _make_place(self, queue: int) -> None:
        """Free a place for a new run of a queue: append the oldest runs, or all and build a larger ring."""
        places, known = len(self._runs.rows), len(self._runs.newest)
        if queue < known and len(self.queues) <= _queues_max(places):
            self._put_runs(min(PUT_COUNT, self.grouped // 2))
            return
        self._put_runs(self.grouped)
        while len(self.queues) > _queues_max(places):
            places *= 2
        self._runs = _no_runs(places, max(queue + 1, 2 * known))

    def _put_runs(self, count: int) -> None:
        """Append the ``count`` oldest runs."""
        first, places = int(self._runs.window[0]), len(self._runs.rows)
        begin = first % places
        end = begin + count
        self._runs.window[0] = first + count
        self.grouped -= count
        self._put_places(begin, min(end, places))
        self._put_places(0, max(0, end - places))

    def _take_places(self, number: int) -> list[int]:
        """Return the places of a queue's runs, the newest first, and end its last run."""
        _, rows, _, newest, window = self._runs
        places: list[int] = []
        if number < len(newest):
            run, newest[number] = int(newest[number]), -1
            while run >= window[0]:
                places.append(run % len(rows))
                run = int(rows[places[-1], RUN_PREVIOUS])
        return places

    def _put_places(self, begin: int, end: int) -> None:
        """Append the runs at consecutive places."""
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
    """Return the number of queues for which ``places`` suffice: slightly more, most runs are full then."""
    return places + places // 32


def _no_runs(places: int, queues: int) -> Runs:
    return Runs.empty(places, min(max(ROOM // places, RUN_MIN), RUN_MAX), queues)
