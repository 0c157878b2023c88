"""Asking for what pulls want: what is known of a queue's entries decides, and nothing else is touched."""

import numpy as np
import pytest

from cometmq.format.queue_entry import SIZE, pack
from cometmq.kernels.pulls.rows import (
    ASK_SIZE,
    IS_FILTERED,
    NO_CODES,
    NO_LIMIT,
    NO_NUMBER,
    QUEUE_NUMBER,
    WINDOW_SIZE,
    Asks,
    KnownEntries,
    PullOps,
    PullRows,
    PullState,
)
from cometmq.kernels.text.key_table import NO_ROW, KeyTable

QUEUE = 2
ENDS = np.array([0, -1, 30], np.int64)  # queue 1 is gone
ENTRIES = b"".join(pack(1000 + n, 100, n) for n in range(10, 25))
COUNT_MAX = 8


class Asked:
    """Pulls by target 0, of queue 2: its entries from 10 to before 25 are known, its first offset is 11."""

    def __init__(self, *offsets: int, count: int = 3) -> None:
        self.rows = PullRows(len(offsets))
        self.pulls = self.rows.array
        self.pulls["state"] = -1
        self.pulls["opaque"] = np.arange(len(offsets)) + 100
        self.pulls["queue_offset"] = offsets
        self.pulls["max_count"] = count
        self.pulls["max_bytes"] = 5_000
        self.table = KeyTable()
        self.targets = self.table.rows
        self.targets[0, QUEUE_NUMBER] = QUEUE
        self.windows = np.zeros((3, WINDOW_SIZE), np.int64)
        self.windows[QUEUE] = 10, 25, SIZE, 11
        self.asks = np.zeros((4, ASK_SIZE), np.int64)
        self.entries = np.zeros(1_000, np.uint8)

    def run(self, ops: PullOps, begin: int = 0) -> tuple[int, int, int]:
        known = KnownEntries(ENDS, self.windows, np.frombuffer(bytes(SIZE) + ENTRIES, np.uint8))
        asks = Asks(self.asks, self.entries, np.array((COUNT_MAX, 100, NO_LIMIT), np.int64))
        done = ops.ask_known(self.rows, begin, len(self.pulls), self.table, known, asks)
        return done, asks.asked, asks.entries_end

    def is_known(self, ops: PullOps) -> bool:
        done, asked, entries_end = self.run(ops)
        assert asked == done and (entries_end > 0) == (done > 0)
        return bool(done)


def test_pulls_are_asked_for_with_their_entries(pull_ops: PullOps) -> None:
    asked = Asked(11, 30, 20, 22)
    assert asked.run(pull_ops) == (4, 3, 9 * SIZE)
    assert asked.pulls["state"].tolist() == [
        PullState.ASKED,
        PullState.AT_END,
        PullState.ASKED,
        PullState.ASKED,
    ]
    assert asked.asks[:3].tolist() == [
        [100, 0, 11, 3, 5_000, 0, NO_CODES, 3 * SIZE, 0, 0, 0, 11, 30, 0],
        [102, 0, 20, 3, 5_000, 0, NO_CODES, 6 * SIZE, 0, 0, 0, 11, 30, 0],
        [103, 0, 22, 3, 5_000, 0, NO_CODES, 9 * SIZE, 0, 0, 0, 11, 30, 0],
    ]
    expected = b"".join(pack(1000 + n, 100, n) for n in (11, 12, 13, 20, 21, 22, 22, 23, 24))
    assert asked.entries[: 9 * SIZE].tobytes() == expected


def test_a_pull_looks_at_one_entry_at_least_and_at_no_more_than_answers_have(pull_ops: PullOps) -> None:
    assert Asked(11, count=-7).run(pull_ops) == (1, 1, SIZE)
    assert Asked(11, count=NO_LIMIT).run(pull_ops) == (1, 1, COUNT_MAX * SIZE)


def test_it_stops_at_the_first_whose_entries_are_not_known_and_goes_on_behind_it(pull_ops: PullOps) -> None:
    asked = Asked(12, 23, 13)
    assert asked.run(pull_ops) == (1, 1, 3 * SIZE)
    assert asked.run(pull_ops, begin=2) == (3, 1, 3 * SIZE)
    assert asked.pulls["state"].tolist() == [PullState.ASKED, -1, PullState.ASKED]


@pytest.mark.parametrize("offset", [-1, 0, 9, 10, 23, 25, 29, 31, 2**62])
def test_entries_that_are_not_known_or_not_there_are_left(pull_ops: PullOps, offset: int) -> None:
    assert not Asked(offset).is_known(pull_ops)


@pytest.mark.parametrize("number", [0, 1, 3, NO_NUMBER])
def test_queues_that_are_empty_gone_or_not_known_are_left(pull_ops: PullOps, number: int) -> None:
    asked = Asked(11)
    asked.targets[0, QUEUE_NUMBER] = number
    assert not asked.is_known(pull_ops)
    asked.pulls[0]["queue_offset"] = 0
    assert not asked.is_known(pull_ops)


def test_pulls_of_unknown_targets_by_tags_or_of_unusual_sizes_are_left(pull_ops: PullOps) -> None:
    unknown, by_tags, small = Asked(11), Asked(11), Asked(11)
    unknown.pulls[0]["target"] = NO_ROW
    by_tags.targets[0, IS_FILTERED] = 1
    small.pulls[0]["max_bytes"] = 99
    assert not (unknown.is_known(pull_ops) or by_tags.is_known(pull_ops) or small.is_known(pull_ops))
    by_tags.pulls[0]["queue_offset"] = 30
    assert by_tags.run(pull_ops) == (1, 0, 0) and by_tags.pulls[0]["state"] == PullState.AT_END


def test_what_there_is_no_room_for_is_left(pull_ops: PullOps) -> None:
    assert Asked(11, 11, 11, 11, 11).run(pull_ops) == (4, 4, 12 * SIZE)
    few = Asked(11, 11, 11)
    few.entries = few.entries[: 7 * SIZE]
    assert few.run(pull_ops) == (2, 2, 6 * SIZE)
    none_known = Asked(11)
    none_known.windows = none_known.windows[:QUEUE]
    assert not none_known.is_known(pull_ops)
