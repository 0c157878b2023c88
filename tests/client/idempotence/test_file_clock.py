"""One clock for all processes that share a file."""

from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.idempotence.file_clock import Anchor, anchor_of

WALL_MS = 1_700_000_000_000

STEPS = st.lists(st.tuples(st.integers(0, 10_000), st.integers(-(10**9), 10**9)), max_size=20)
"""How much time passes, and by how much the wall clock is set then."""


def test_it_begins_at_the_wall_clocks_time() -> None:
    assert anchor_of(None, "boot", 5, WALL_MS) == Anchor("boot", 5, WALL_MS, WALL_MS)


@given(STEPS)
def test_while_the_machine_runs_it_goes_by_the_time_that_passes(steps: list[tuple[int, int]]) -> None:
    anchor = first = anchor_of(None, "boot", 5, WALL_MS)
    monotonic_ms, wall_ms = 5, WALL_MS
    for passed_ms, set_by_ms in steps:
        monotonic_ms += passed_ms
        wall_ms += passed_ms + set_by_ms
        anchor = anchor_of(anchor, "boot", monotonic_ms, wall_ms)
        assert anchor.file_ms == WALL_MS + monotonic_ms - 5
        assert anchor_of(first, "boot", monotonic_ms, wall_ms) == anchor, "whichever moment one knows"


def test_across_a_start_of_the_machine_it_goes_by_the_wall_clock_and_never_back() -> None:
    anchor = Anchor("boot", 10**9, WALL_MS, 7_000)
    assert anchor_of(anchor, "next", 3, WALL_MS + 60_000) == Anchor("next", 3, WALL_MS + 60_000, 67_000)
    assert anchor_of(anchor, "next", 3, WALL_MS - 60_000) == Anchor("next", 3, WALL_MS - 60_000, 7_000)


def test_without_a_boot_id_it_goes_by_the_wall_clock() -> None:
    anchor = Anchor("", 5, WALL_MS, 7_000)
    assert anchor_of(anchor, "", 10**9, WALL_MS + 1).file_ms == 7_001
