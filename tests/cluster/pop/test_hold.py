from collections.abc import Iterable
from typing import NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cometmq.cluster.pop.hold import ALL_QUEUES, STEP_MS, Place, PopHold


class Held(NamedTuple):
    ticket: int
    owner: str
    place: Place
    tags_codes: frozenset[int] | None
    deadline_ms: int


def held(
    ticket: int,
    *,
    owner: str = "c",
    topic: str = "T",
    group: str = "g",
    queue_id: int = ALL_QUEUES,
    tags: frozenset[int] | None = None,
    deadline: int = 100,
) -> Held:
    return Held(ticket, owner, (topic, group, queue_id), tags, deadline)


def hold_of(*pops: Held, force_interval: int = 0, is_last_first: bool = False) -> PopHold[Held]:
    hold = PopHold[Held](10, 100, force_interval=force_interval, is_last_first=is_last_first)
    for pop in pops:
        assert hold.hold(pop)
    return hold


def tickets(pops: Iterable[Held]) -> list[int]:
    return [pop.ticket for pop in pops]


def woken(hold: PopHold[Held], *arrivals: tuple[str, int, int, int]) -> list[int]:
    """Process arrivals, and take who is awake."""
    is_any = hold.arrive(arrivals)
    awake = tickets(hold.take_awake())
    assert is_any == bool(awake)
    return awake


def test_a_message_wakes_one_pop_of_all_queues_and_one_of_its_own_in_each_group() -> None:
    hold = hold_of(
        held(1, deadline=300),
        held(2, deadline=100),
        held(3, queue_id=1),
        held(4, queue_id=2),
        held(5, group="h"),
        held(6, topic="U"),
    )
    assert woken(hold, ("T", 1, 9, 0)) == [2, 3, 5]
    assert woken(hold, ("T", 1, 10, 0)) == [1]
    assert woken(hold, ("T", 1, 11, 0)) == []
    assert len(hold) == 2


def test_more_messages_wake_no_other_before_the_first_is_served() -> None:
    hold = hold_of(held(1), held(2, deadline=200))
    assert hold.arrive([("T", 0, 1, 0), ("T", 1, 1, 0)])
    assert hold.arrive([("T", 0, 2, 0)])
    assert hold.wake(("T", "g", ALL_QUEUES))
    assert tickets(hold.take_awake()) == [1]
    assert hold.wake(("T", "g", ALL_QUEUES))
    assert tickets(hold.take_awake()) == [2]
    assert not hold.wake(("T", "g", ALL_QUEUES))


def test_only_wanted_tags_wake_but_for_each_message_of_an_interval() -> None:
    hold = hold_of(held(1, tags=frozenset({7})), force_interval=800)
    assert woken(hold, ("T", 0, 800, 6)) == []
    assert woken(hold, ("T", 0, 801, 6)) == [1]
    hold = hold_of(held(1, tags=frozenset({7})))
    assert woken(hold, ("T", 0, 801, 6)) == []
    assert woken(hold, ("T", 0, 802, 6), ("T", 0, 803, 7)) == [1]


@pytest.mark.parametrize("retry", ["%RETRY%g_T", "%RETRY%g+T"])
def test_a_message_in_the_groups_retry_topic_wakes_whatever_its_tag(retry: str) -> None:
    hold = hold_of(held(1, tags=frozenset({7})), held(2, queue_id=0), held(3, queue_id=1), held(4, group="h"))
    assert woken(hold, (retry, 0, 1, 6)) == [1, 2]
    assert woken(hold, ("%RETRY%i_T", 0, 1, 6)) == []


def test_the_notification_with_the_latest_deadline_is_woken() -> None:
    hold = hold_of(held(1, deadline=100), held(2, deadline=300), held(3, deadline=200), is_last_first=True)
    assert [woken(hold, ("T", 0, n, 0)) for n in (1, 2, 3)] == [[2], [3], [1]]


def test_each_expires_once_its_deadline_rounded_up_has_passed() -> None:
    hold = hold_of(held(1, deadline=101), held(2, deadline=STEP_MS), held(3, deadline=20_001))
    assert hold.next_deadline_ms == STEP_MS
    assert tickets(hold.expire(STEP_MS - 1)) == []
    assert tickets(hold.expire(STEP_MS)) == [2]
    assert hold.next_deadline_ms == 120
    assert tickets(hold.expire(100_000)) == [1, 3]
    assert hold.next_deadline_ms is None and len(hold) == 0


def test_there_is_room_for_so_many_at_a_place_and_in_all() -> None:
    hold = PopHold[Held](2, 3)
    assert hold.hold(held(1)) and hold.hold(held(2)) and not hold.hold(held(3))
    assert hold.count_at(("T", "g", ALL_QUEUES)) == 2
    assert hold.hold(held(4, queue_id=0)) and not hold.hold(held(5, queue_id=1))
    assert len(hold) == 3


def test_a_closed_connection_s_are_forgotten_and_a_topic_s_are_released() -> None:
    hold = hold_of(held(1, owner="a"), held(2, owner="b", deadline=200), held(3, owner="b", group="h"))
    hold.forget("a")
    hold.forget("nobody")
    assert hold.release("U") == []
    assert tickets(hold.release("T")) == [2, 3]
    assert len(hold) == 0 and hold.next_deadline_ms is None


class Model(RuleBasedStateMachine):
    """The hold beside a plain list of who is held."""

    def __init__(self) -> None:
        super().__init__()
        self.hold_ = PopHold[Held](3, 6, force_interval=4)
        self.model: list[Held] = []
        self.ticket = 0

    def first_at(self, place: Place) -> Held | None:
        there = [pop for pop in self.model if pop.place == place]
        return min(there, key=lambda pop: pop.deadline_ms, default=None)  # the oldest of equal ones

    @rule(
        owner=st.sampled_from("ab"),
        topic=st.sampled_from(["T", "%RETRY%g_T"]),
        group=st.sampled_from("gh"),
        queue_id=st.integers(-1, 1),
        tags=st.sampled_from([None, frozenset({1})]),
        deadline=st.integers(0, 100),
    )
    def hold(
        self, owner: str, topic: str, group: str, queue_id: int, tags: frozenset[int] | None, deadline: int
    ) -> None:
        self.ticket += 1
        pop = Held(self.ticket, owner, (topic, group, queue_id), tags, deadline)
        has_room = len(self.model) < 6 and sum(other.place == pop.place for other in self.model) < 3
        assert self.hold_.hold(pop) == has_room
        if has_room:
            self.model.append(pop)

    @rule(
        topic=st.sampled_from(["T", "U", "%RETRY%g_T", "%RETRY%h+T"]),
        queue_id=st.integers(0, 2),
        offset=st.integers(0, 5),
        tags_code=st.integers(0, 1),
    )
    def arrive(self, topic: str, queue_id: int, offset: int, tags_code: int) -> None:
        expected = set()
        for pop in self.model:
            normal, group, waiting_at = pop.place
            is_retry = topic in (f"%RETRY%{group}_{normal}", f"%RETRY%{group}+{normal}")
            if (topic == normal or is_retry) and waiting_at in (ALL_QUEUES, queue_id):
                first = self.first_at(pop.place)
                assert first is not None
                if is_retry or offset % 4 == 0 or first.tags_codes is None or tags_code in first.tags_codes:
                    expected.add(first)
        assert self.hold_.arrive([(topic, queue_id, offset + 1, tags_code)]) == bool(expected)
        assert set(self.hold_.take_awake()) == expected
        self.model = [pop for pop in self.model if pop not in expected]

    @rule(now_ms=st.integers(0, 120))
    def expire(self, now_ms: int) -> None:
        expected = [pop for pop in self.model if -(-pop.deadline_ms // STEP_MS) * STEP_MS <= now_ms]
        assert sorted(self.hold_.expire(now_ms)) == sorted(expected)
        self.model = [pop for pop in self.model if pop not in expected]

    @rule(owner=st.sampled_from("abc"))
    def forget(self, owner: str) -> None:
        self.hold_.forget(owner)
        self.model = [pop for pop in self.model if pop.owner != owner]

    @invariant()
    def has_the_same(self) -> None:
        assert len(self.hold_) == len(self.model)
        deadlines = [-(-pop.deadline_ms // STEP_MS) * STEP_MS for pop in self.model]
        assert self.hold_.next_deadline_ms == min(deadlines, default=None)
        for place in {pop.place for pop in self.model}:
            assert self.hold_.count_at(place) == sum(pop.place == place for pop in self.model)


TestHold = Model.TestCase
