from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.cluster.claims import Claimed, ClaimState, Mark, claim, is_done

LEASE_MS = 10
KEEP_MS = 100


def test_a_free_key_is_ours_for_the_lease() -> None:
    expired = Mark(ClaimState.DONE, 5)
    for found in (None, expired):
        assert claim(found, 5, LEASE_MS) == Claimed(True, Mark(ClaimState.IN_PROGRESS, 15), LEASE_MS)


def test_a_mark_that_counts_stands() -> None:
    for mark in (Mark(ClaimState.IN_PROGRESS, 6), Mark(ClaimState.DONE, 6)):
        assert claim(mark, 5, LEASE_MS) == Claimed(False, mark, 1)


def test_done_is_what_was_handled_and_is_remembered() -> None:
    assert is_done(Mark(ClaimState.DONE, 6), 5)
    assert not is_done(Mark(ClaimState.DONE, 5), 5)
    assert not is_done(Mark(ClaimState.IN_PROGRESS, 6), 5)
    assert not is_done(None, 5)


@settings(max_examples=50)
@given(st.lists(st.tuples(st.sampled_from(["claim", "finish", "release"]), st.integers(0, 12))))
def test_nobody_begins_while_a_lease_runs_or_what_is_done_is_remembered(steps: list[tuple[str, int]]) -> None:
    now_ms, mark = 0, None
    lease_ends = done_ends = 0
    given_out: list[Mark] = []
    for step, pause_ms in steps:
        now_ms += pause_ms
        if step == "claim":
            claimed = claim(mark, now_ms, LEASE_MS)
            assert claimed.ours == (now_ms >= max(lease_ends, done_ends))
            if claimed.ours:
                mark, lease_ends = claimed.mark, now_ms + LEASE_MS
                given_out.append(mark)
        elif step == "finish" and mark is not None:
            mark, done_ends, lease_ends = Mark(ClaimState.DONE, now_ms + KEEP_MS), now_ms + KEEP_MS, 0
        elif step == "release" and given_out and mark == given_out[-1]:
            mark, lease_ends = None, 0
            given_out.pop()
        assert len(set(given_out)) == len(given_out), "marks of one key that were not given back differ"
