"""How far a log goes is told by its segments as ``LogScan`` tells it by its bytes."""

import numpy as np
import pytest

from cometmq.spark.jobs.piece_scan import Blank, PieceSeen, Segment
from cometmq.spark.jobs.verify.log import Kept, LogSeen, LostStretch, join_pieces
from cometmq.store.verify.log import TO_MISSING_FILE

FILE = 100
ALWAYS = 2**63 - 1


def piece(begin: int, *segments: tuple[int, int, int], blank: Blank | None = None) -> PieceSeen:
    """Return what was found in a file, in which each segment is one message of a time."""
    found = [Segment(first, behind, 1, time, time) for first, behind, time in segments]
    end = found[-1].end if found else begin
    return PieceSeen(begin, begin + FILE, found, blank, end)


def seen(*pieces: PieceSeen, vouched_time: int = ALWAYS) -> LogSeen:
    return join_pieces(reversed(pieces), [one.begin for one in pieces], FILE, vouched_time)


def test_a_sound_log_goes_from_its_first_to_its_last_record() -> None:
    found = seen(
        piece(100, (100, 150, 1), (150, 180, 2), blank=Blank(180, 20)), piece(200, (200, 230, 2)), piece(300)
    )
    assert (found.begin_offset, found.end_offset, found.messages, found.last_time) == (100, 230, 3, 2)
    assert (found.lost, found.blanks, found.data_behind) == ([], [], 0)
    assert found.kept == Kept([100, 200], [180, 230])
    offsets = np.array([99, 100, 179, 180, 200, 229, 230])
    assert found.kept.holds(offsets).tolist() == [False, True, True, False, True, True, False]


def test_what_lies_between_records_is_damage() -> None:
    found = seen(piece(0, (10, 50, 1), (60, 90, 1), blank=Blank(90, 10)), piece(100, (120, 130, 4)))
    assert [one[:2] for one in found.lost] == found.damaged == [(0, 10), (50, 60), (100, 120)]
    assert (found.end_offset, found.messages) == (130, 3)


@pytest.mark.parametrize("time", [0, 9])  # what an earlier life has left; what nobody vouches for
def test_behind_a_torn_tail_nothing_counts(time: int) -> None:
    found = seen(piece(0, (0, 50, 1), (60, 90, time)), piece(100), vouched_time=5)
    assert (found.end_offset, found.messages, found.lost) == (50, 1, [])
    assert found.data_behind == 40
    assert found.kept == Kept([0], [50])


def test_a_log_goes_on_in_the_next_file_if_that_begins_with_a_record() -> None:
    found = seen(piece(0, (0, 50, 1), (60, 90, 0)), piece(100, (100, 140, 2)))
    assert (found.end_offset, found.lost) == (140, [LostStretch(50, 100)])
    found = seen(piece(0, (0, 50, 1)), piece(100, (110, 140, 2)))
    assert (found.end_offset, found.lost, found.data_behind) == (50, [], 40)


def test_over_a_missing_file_a_log_goes_on() -> None:
    found = seen(piece(0, (0, 50, 9)), piece(300, (300, 340, 2)))
    assert (found.end_offset, found.messages, found.lost) == (340, 2, [LostStretch(50, 100, TO_MISSING_FILE)])


def test_blanks_that_do_not_go_to_the_end_are_told() -> None:
    found = seen(piece(0, (0, 90, 1), blank=Blank(90, 9)), piece(100, (100, 150, 1)))
    assert (found.blanks, found.end_offset, found.lost) == ([Blank(90, 9)], 150, [])


def test_a_store_may_be_empty() -> None:
    found = join_pieces([], [], FILE, ALWAYS)
    assert (found.begin_offset, found.end_offset, found.messages) == (0, 0, 0)
    assert not found.kept.holds(np.array([0])).any()
