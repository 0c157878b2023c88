"""The check-back's decisions, and what is known of ended half messages: held against a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.cluster import transaction
from cometmq.cluster.transaction import CheckRules, Endings, HalfMessage, Verdict, judge

RULES = CheckRules(immunity_ms=6_000, asks_max=15, age_ms_max=259_200_000)
NOW = 1_000_000_000


@pytest.mark.parametrize(
    ("age_ms", "changes", "expected"),
    [
        (6_000, {}, Verdict.END_ROUND),
        (6_001, {}, Verdict.ASK),
        (0, {}, Verdict.END_ROUND),
        (
            -1,
            {},
            Verdict.ASK,
        ),  # the clock was put back while no broker ran
        (6_001, {"asks": 14}, Verdict.ASK),
        (6_001, {"asks": 15}, Verdict.GIVE_UP),
        (RULES.age_ms_max, {}, Verdict.ASK),
        (RULES.age_ms_max + 1, {}, Verdict.ASK),  # nobody was asked yet: its age alone says nothing
        (6_000, {"immunity_ms": 0}, Verdict.WAIT),
        (6_001, {"immunity_ms": 0}, Verdict.ASK),
        (9_000, {"immunity_ms": 9_000}, Verdict.WAIT),
        (9_001, {"immunity_ms": 9_000}, Verdict.ASK),
        (-1, {"immunity_ms": 9_000}, Verdict.ASK),
    ],
)
def test_a_producer_is_asked_for_what_is_old_enough(
    age_ms: int, changes: dict[str, int], expected: Verdict
) -> None:
    half = HalfMessage(NOW - age_ms, NOW - age_ms)._replace(**changes)
    assert judge(half, RULES, NOW) is expected


def test_a_producers_clock_that_is_ahead_makes_nobody_wait_longer() -> None:
    half = HalfMessage(born_time=NOW + 3_600_000, store_time=NOW, immunity_ms=9_000)
    assert judge(half, RULES, NOW + 9_000) is Verdict.WAIT
    assert judge(half, RULES, NOW + 9_001) is Verdict.ASK


def test_an_op_message_is_used_up_once_all_that_it_names_is_done_with() -> None:
    endings = Endings(10, 5)
    endings.record_op(5, [3, 11], 6)
    endings.record_op(6, [10], 7)
    endings.record_op(7, [2], 8)
    assert [endings.is_ended(offset) for offset in (10, 11, 12)] == [True, True, False]
    assert endings.op_offset == 5
    endings.advance(11)
    assert endings.op_offset == 5
    endings.advance(12)
    assert endings.op_offset == endings.next_op_offset == 8


def test_who_ends_what_was_put_back_ends_what_it_is_now() -> None:
    endings = Endings(0, 0)
    endings.put_back(0, at=4)
    endings.put_back(4, at=9)
    assert (endings.latest(0), endings.latest(4), endings.latest(9)) == (9, 9, 9)
    assert [endings.is_ended(offset) for offset in (0, 4, 9)] == [True, True, False]


def test_what_is_done_with_is_remembered_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction, "REMEMBERED_MAX", 10)
    endings = Endings(0, 0)
    for offset in range(100):
        endings.end(offset)
        endings.advance(offset)
    assert [offset for offset in range(100) if endings.is_ended(offset)] == list(range(90, 100))


def test_of_what_is_done_with_it_is_known_what_became_of_it_only_if_that_was_noted() -> None:
    endings = Endings(5, 0)
    endings.record_op(0, [3], 1)
    endings.give_up(2)
    assert [endings.is_remembered(offset) for offset in range(7)] == [
        False,
        False,
        True,
        True,
        False,
        True,
        True,
    ]


@given(
    ops=st.lists(st.lists(st.integers(0, 40), max_size=5), max_size=20),
    steps=st.lists(st.tuples(st.booleans(), st.integers(0, 45)), max_size=60),
)
def test_op_offsets_and_ended_ones_are_those_of_a_model_that_looks_at_all(
    ops: list[list[int]], steps: list[tuple[bool, int]]
) -> None:
    endings, noted, half_offset = Endings(0, 0), 0, 0
    for is_op, offset in steps:
        if is_op and noted < len(ops):
            endings.record_op(noted, ops[noted], noted + 1)
            noted += 1
        elif offset >= half_offset:
            half_offset = offset
            endings.advance(offset)
        unused = [place for place in range(noted) if any(one >= half_offset for one in ops[place])]
        assert endings.op_offset == (unused[0] if unused else noted)
        named = {one for op in ops[:noted] for one in op}
        assert {one for one in range(46) if endings.is_ended(one)} == named


def test_one_that_is_given_up_is_passed_over_though_it_may_still_be_ended() -> None:
    endings = Endings(0, 0)
    endings.give_up(1)
    endings.end(2)
    assert [endings.is_settled(offset) for offset in range(4)] == [False, True, True, False]
    assert not endings.is_ended(1)


def test_one_waits_for_a_producer_up_to_an_age() -> None:
    half = HalfMessage(NOW - RULES.age_ms_max, NOW)
    assert not half.is_too_old(RULES, NOW)
    assert half.is_too_old(RULES, NOW + 1)
