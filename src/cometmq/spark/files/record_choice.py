"""Choose the records of a CommitLog file by the options and WHERE clauses of a read.

They are chosen before their bodies are copied: by the numbers in a scan, then by texts.
"""

from collections.abc import Collection, Sequence
from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa

from cometmq.kernels.arrays import Flags, Longs
from cometmq.kernels.ops import Ops, Scan
from cometmq.spark.files.splits import FilePiece, within
from cometmq.spark.filters import OFFSET_MAX, Pushed, both
from cometmq.spark.options import ReadOptions


class RecordChoice(NamedTuple):
    """Conditions that all must hold; None for no condition.

    Attributes:
        begin_time: store time of the earliest record, ms since the epoch; ``end_time`` is behind the last.
        begin: first queue offset; ``end`` is behind the last.
        physical_begin: first CommitLog offset; ``physical_end`` is behind the last.
        key: a business key that the records have.
    """

    topics: frozenset[str] | None = None
    begin_time: int | None = None
    end_time: int | None = None
    queue_ids: frozenset[int] | None = None
    begin: int = 0
    end: int = OFFSET_MAX
    physical_begin: int = 0
    physical_end: int = OFFSET_MAX
    tags: frozenset[str] | None = None
    unique_ids: frozenset[str] | None = None
    key: str | None = None

    @classmethod
    def of(cls, options: ReadOptions, pushed: Pushed) -> Self:
        """Build the conditions of options and WHERE clauses together."""
        begins = [time for time in (options.starting_time, pushed.begin_time) if time is not None]
        ends = [options.ending_time, None if pushed.end_time is None else pushed.end_time + 1]
        return cls(
            topics=both(options.topics, pushed.topics),
            begin_time=max(begins, default=None),
            end_time=min((time for time in ends if time is not None), default=None),
            queue_ids=pushed.queue_ids,
            begin=pushed.begin,
            end=pushed.end,
            physical_begin=pushed.physical_begin,
            physical_end=pushed.physical_end,
            tags=both(options.tags, pushed.tags),
            unique_ids=pushed.unique_ids,
            key=options.key,
        )

    def pieces(self, split: Sequence[FilePiece]) -> list[FilePiece]:
        """Return the part of a split that can hold such records."""
        return [] if self._is_empty() else within(split, self.physical_begin, self.physical_end)

    def rows(self, ops: Ops, data: memoryview, scan: Scan) -> Longs:
        """Return which records of a scan meet the conditions, in order, ``int64[n]``."""
        rows = ops.select(data, scan, topics=self.topics, begin_time=self.begin_time, end_time=self.end_time)
        if self.queue_ids is not None:
            rows = rows[np.isin(scan.queue_id[rows], list(self.queue_ids))]
        if (self.begin, self.end) != (0, OFFSET_MAX):
            offsets = scan.queue_offset[rows]
            rows = rows[(offsets >= self.begin) & (offsets < self.end)]
        return self._by_texts(ops, data, scan, rows)

    def _is_empty(self) -> bool:
        """Check whether no record can meet the conditions."""
        chosen: tuple[Collection[Any] | None, ...] = (self.topics, self.queue_ids, self.tags, self.unique_ids)
        return self.begin >= self.end or any(values is not None and not values for values in chosen)

    def _by_texts(self, ops: Ops, data: memoryview, scan: Scan, rows: Longs) -> Longs:
        wanted = {"tags": self.tags, "unique_id": self.unique_ids}
        names = [name for name, values in wanted.items() if values is not None]
        names += ["keys"] if self.key is not None else []
        if not names or not len(rows):
            return rows
        import pyarrow.compute as pc  # noqa: PLC0415  it takes 40 ms, which few reads need

        texts = ops.arrow(data, scan, rows, names)
        conditions = [
            _flags(pc.is_in(texts.column(name), pa.array(sorted(values), pa.string())))
            for name, values in wanted.items()
            if values is not None
        ]
        if self.key is not None:
            conditions.append(_holds_key(texts.column("keys"), self.key))
        return rows[reduce(np.logical_and, conditions)]


def _holds_key(keys: Any, key: Any) -> Flags:
    """Return for each list of keys whether it holds the key, ``bool[n]``."""
    import pyarrow.compute as pc  # noqa: PLC0415  as above

    found = np.zeros(len(keys), np.bool_)
    found[pc.list_parent_indices(keys).to_numpy()[_flags(pc.equal(pc.list_flatten(keys), key))]] = True
    return found


def _flags(flags: Any) -> Flags:
    values: Flags = flags.to_numpy(zero_copy_only=False)
    return values
