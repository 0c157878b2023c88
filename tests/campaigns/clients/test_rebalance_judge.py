from tests.campaigns.clients.rebalance_judge import Handled, Owned, judge


def handled(member: int, offset: int, begin_ns: int, end_ns: int | None) -> Handled:
    return Handled(member, 0, offset, offset, begin_ns, end_ns)


def test_a_right_history_is_right_and_duplicates_are_counted() -> None:
    history = [handled(1, 0, 0, 1), handled(1, 1, 2, None), handled(2, 1, 9, 10)]
    verdict = judge([0, 1], history, ordered=True)
    assert verdict.is_right
    assert (verdict.handled, verdict.duplicates) == (3, 1)


def test_what_is_lost_or_shared_or_disordered_is_noticed() -> None:
    lost = judge([0, 1], [handled(1, 0, 0, 1), handled(1, 1, 2, None)], ordered=True)
    assert lost.lost == [1]
    shared = [handled(1, 0, 0, 5), handled(2, 1, 3, 6)]
    assert judge([0, 1], shared, ordered=True).shared == [(shared[0], shared[1])]
    gap = [handled(1, 0, 0, 1), handled(1, 2, 2, 3), handled(1, 1, 4, 5)]
    assert judge([0, 1, 2], gap, ordered=True).disordered == [gap[1]]
    assert judge([0, 1, 2], gap, ordered=False).is_right


def test_a_queue_that_two_have_at_a_time_is_noticed_although_they_handle_nothing() -> None:
    first, later, other = Owned(1, 0, 0, 5), Owned(2, 0, 4, 9), Owned(2, 1, 0, 9)
    assert judge([], [], [later, other, first], ordered=True).shared == [(first, later)]
    assert judge([], [], [first, later._replace(begin_ns=5), other], ordered=True).is_right
    assert judge([], [], [first, later], ordered=False).is_right
