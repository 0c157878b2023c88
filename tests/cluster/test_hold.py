from collections.abc import Iterable
from typing import NamedTuple

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cometmq.cluster.hold import PullHold


class Waiting(NamedTuple):
    ticket: int
    owner: str
    queue: tuple[str, int]
    queue_offset: int
    tags_codes: frozenset[int] | None
    deadline_ms: int


def pull(
    ticket: int,
    *,
    owner: str = "c",
    queue_id: int = 0,
    offset: int = 0,
    tags: frozenset[int] | None = None,
    deadline: int = 100,
) -> Waiting:
    return Waiting(ticket, owner, ("T", queue_id), offset, tags, deadline)


def tickets(pulls: Iterable[Waiting]) -> list[int]:
    return [pull.ticket for pull in pulls]


def test_an_arrival_wakes_those_who_wait_for_it_and_nobody_else() -> None:
    hold = PullHold[Waiting]()
    for held in (
        pull(1, offset=5),
        pull(2, offset=6),
        pull(3, offset=5, tags=frozenset({7})),
        pull(4, queue_id=1, offset=0),
    ):
        assert hold.hold(held)
    assert tickets(hold.arrive([("T", 0, 6, 0)])) == [1]
    assert tickets(hold.arrive([("T", 0, 7, 7), ("T", 1, 1, 0)])) == [2, 3, 4]
    assert len(hold) == 0


def test_an_arrival_that_was_already_seen_wakes_nobody() -> None:
    hold = PullHold[Waiting]()
    hold.hold(pull(1, offset=5))
    assert hold.arrive([("T", 0, 5, 0)]) == []
    assert len(hold) == 1


def test_a_pull_is_woken_once_by_many_arrivals() -> None:
    hold = PullHold[Waiting]()
    hold.hold(pull(1))
    assert tickets(hold.arrive([("T", 0, n, 0) for n in range(1, 10)])) == [1]


def test_a_full_hold_says_so() -> None:
    hold = PullHold[Waiting](limit=1)
    assert hold.hold(pull(1))
    assert not hold.hold(pull(2))
    assert tickets(hold.expire(100)) == [1]
    assert hold.hold(pull(2))


def test_those_are_released_whom_something_else_concerns() -> None:
    hold = PullHold[Waiting]()
    for held in (pull(1), pull(2), pull(3, queue_id=1)):
        hold.hold(held)
    assert tickets(hold.release("T", 0, lambda waiting: waiting.ticket != 1)) == [2]
    assert hold.release("T", 0, lambda waiting: waiting.ticket != 1) == []
    assert hold.release("T", 9, lambda _: True) == []
    assert len(hold) == 2


def test_a_pull_expires_at_its_deadline() -> None:
    hold = PullHold[Waiting]()
    hold.hold(pull(1, deadline=10))
    hold.hold(pull(2, deadline=11))
    assert hold.expire(9) == []
    assert tickets(hold.expire(10)) == [1]
    assert len(hold) == 1


def test_a_lost_connection_takes_its_pulls_along() -> None:
    hold = PullHold[Waiting]()
    hold.hold(pull(1, owner="gone"))
    hold.hold(pull(2, owner="here"))
    hold.hold(pull(3, owner="gone", queue_id=1))
    hold.forget("gone")
    assert tickets(hold.arrive([("T", 0, 1, 0), ("T", 1, 1, 0)])) == [2]


class HoldAgainstAList(RuleBasedStateMachine):
    """The hold must do what a plain list of pulls would."""

    def __init__(self) -> None:
        super().__init__()
        self.hold = PullHold[Waiting](limit=20)
        self.model: list[Waiting] = []
        self.tickets = 0

    @rule(
        owner=st.sampled_from("ab"),
        queue_id=st.integers(0, 2),
        offset=st.integers(0, 5),
        tags=st.none() | st.frozensets(st.integers(0, 2)),
        deadline=st.integers(0, 9),
    )
    def holds(
        self, owner: str, queue_id: int, offset: int, tags: frozenset[int] | None, deadline: int
    ) -> None:
        self.tickets += 1
        held = Waiting(self.tickets, owner, ("T", queue_id), offset, tags, deadline)
        assert self.hold.hold(held) == (len(self.model) < 20)
        if len(self.model) < 20:
            self.model.append(held)

    @rule(arrivals=st.lists(st.tuples(st.just("T"), st.integers(0, 2), st.integers(0, 6), st.integers(0, 2))))
    def arrives(self, arrivals: list[tuple[str, int, int, int]]) -> None:
        called = {
            held.ticket
            for held in self.model
            for _, queue_id, next_offset, code in arrivals
            if queue_id == held.queue[1] and next_offset > held.queue_offset
            if held.tags_codes is None or code in held.tags_codes
        }
        woken = tickets(self.hold.arrive(arrivals))
        assert len(woken) == len(set(woken)) and set(woken) == called
        self.model = [held for held in self.model if held.ticket not in called]

    @rule(now=st.integers(0, 9))
    def expires(self, now: int) -> None:
        assert set(tickets(self.hold.expire(now))) == {
            held.ticket for held in self.model if held.deadline_ms <= now
        }
        self.model = [held for held in self.model if held.deadline_ms > now]

    @rule(owner=st.sampled_from("ab"))
    def forgets(self, owner: str) -> None:
        self.hold.forget(owner)
        self.model = [held for held in self.model if held.owner != owner]

    @invariant()
    def counts(self) -> None:
        assert len(self.hold) == len(self.model)


TestHoldAgainstAList = HoldAgainstAList.TestCase
