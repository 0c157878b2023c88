"""What a store and the kernels pass each other."""

import mmap

from cometmq.kernels import plain, pulls


def test_what_is_told_has_places_of_its_own() -> None:
    assert {pulls.LOOKED_AT, pulls.LAST, pulls.RUNS} == set(range(pulls.OUTCOME_SIZE))
    assert pulls.UNUSUAL < 0 and pulls.PAGE_SIZE == mmap.PAGESIZE


def test_without_kernels_reads_go_the_long_way() -> None:
    assert plain.pulls is None
