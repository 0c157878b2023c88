from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cometmq.cluster.rebalance import averagely
from cometmq.cluster.rebalance_state import LOCK_TRUSTED_MS, Assignment, Moves
from cometmq.message import MessageQueue

QUEUES = [MessageQueue("Orders", "broker-a", queue_id) for queue_id in range(5)]
A, B, C, *_ = QUEUES
NOTHING = Moves([], [])
LOCK_LIFETIME_MS = 60_000
MEMBERS = 3


def concurrent() -> Assignment:
    return Assignment(lambda _: False)


def ordered() -> Assignment:
    return Assignment(lambda _: True)


def test_queues_that_stay_are_not_disturbed() -> None:
    mine = concurrent()
    assert mine.aim("Orders", [A, B]) == Moves([A, B], [])
    assert mine.aim("Orders", [B, C]) == Moves([C], [A])
    assert mine.aim("Orders", [B, C]) == NOTHING
    assert mine.owned() == [B, C]


def test_a_queue_that_is_wanted_again_waits_until_it_was_left() -> None:
    mine = concurrent()
    mine.aim("Orders", [A])
    mine.aim("Orders", [])
    assert mine.aim("Orders", [A]) == NOTHING
    assert not mine.is_settled()
    assert mine.left(A) == Moves([A], [])
    assert mine.is_settled()


def test_a_share_that_names_queues_of_other_topics_takes_these_not_again() -> None:
    mine, other = concurrent(), A._replace(topic="Invoices")
    assert mine.aim("Orders", [A, other]) == Moves([A], [])
    assert mine.aim("Invoices", [A, other]) == Moves([other], [])
    assert mine.aim("Orders", [A, other]) == NOTHING


def test_an_ordered_queue_is_taken_only_when_its_lock_is_granted() -> None:
    mine = ordered()
    assert mine.aim("Orders", [A, B]) == NOTHING
    assert mine.to_begin() == [A, B]
    assert mine.granted([A, B], [A], 1_000) == Moves([A], [])
    assert (mine.owned(), mine.to_begin(), mine.is_settled()) == ([A], [B], False)
    assert mine.holds(A, 1_000) and not mine.holds(B, 1_000)


def test_a_lock_that_is_not_renewed_is_given_up_before_the_broker_gives_it_away() -> None:
    mine = ordered()
    mine.aim("Orders", [A])
    mine.granted([A], [A], 1_000)
    assert mine.expire(1_000 + LOCK_TRUSTED_MS - 1) == NOTHING
    assert not mine.holds(A, 1_000 + LOCK_TRUSTED_MS)
    assert mine.expire(1_000 + LOCK_TRUSTED_MS) == Moves([], [A])
    assert mine.left(A) == NOTHING
    assert mine.to_begin() == [A]


def test_a_lock_that_somebody_else_got_is_left_and_asked_for_again() -> None:
    mine = ordered()
    mine.aim("Orders", [A])
    mine.granted([A], [A], 0)
    assert mine.granted([A], [], 20_000) == Moves([], [A])
    assert mine.granted([A], [], 20_001) == NOTHING
    mine.left(A)
    assert mine.granted([A], [A], 20_002) == Moves([A], [])


def test_a_queue_goes_to_its_end_as_it_began() -> None:
    in_order = {"Orders": True}
    mine = Assignment(lambda topic: in_order[topic])
    mine.aim("Orders", [A])
    mine.granted([A], [A], 0)
    in_order["Orders"] = False
    mine.aim("Orders", [])
    mine.aim("Orders", [A, B])
    assert (mine.to_lock(), mine.needs_lock(A), mine.needs_lock(B)) == ([A], True, False)
    assert mine.left(A) == Moves([A], [])
    assert (mine.to_lock(), mine.owned()) == ([], [A, B])


def test_a_lock_is_renewed_while_the_last_message_is_handled() -> None:
    mine = ordered()
    mine.aim("Orders", [A])
    mine.granted([A], [A], 0)
    mine.aim("Orders", [])
    assert mine.to_lock() == [A]
    mine.left(A)
    assert mine.to_lock() == []


def test_a_queue_that_is_not_wanted_any_more_is_not_waited_for() -> None:
    mine = ordered()
    mine.aim("Orders", [A])
    assert mine.aim("Orders", []) == NOTHING
    assert mine.granted([A], [A], 0) == NOTHING
    assert mine.to_lock() == []


class Members(RuleBasedStateMachine):
    """Ordered consumers of one group, the broker's locks, and requests and handlers that take their time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.present = {0}
        self.members = [ordered() for _ in range(MEMBERS)]
        self.working: list[set[MessageQueue]] = [set() for _ in range(MEMBERS)]
        self.locks: dict[MessageQueue, tuple[int, int]] = {}

    def follow(self, number: int, moves: Moves) -> None:
        assert set(moves.leave) <= self.working[number]
        assert not set(moves.take) & self.working[number]
        self.working[number] |= set(moves.take)

    @rule(number=st.integers(0, MEMBERS - 1))
    def come_or_go(self, number: int) -> None:
        self.present ^= {number}

    @rule(number=st.integers(0, MEMBERS - 1))
    def rebalance(self, number: int) -> None:
        share = averagely(str(number), QUEUES, sorted(map(str, self.present)))
        self.follow(number, self.members[number].aim("Orders", share))

    @rule(number=st.integers(0, MEMBERS - 1), delay_ms=st.integers(0, 5_000))
    def lock(self, number: int, delay_ms: int) -> None:
        asked_ms = self.now
        self.now += delay_ms
        asked = self.members[number].to_lock()
        granted = []
        for queue in asked:
            owner, taken_ms = self.locks.get(queue, (number, 0))
            if owner == number or self.now - taken_ms > LOCK_LIFETIME_MS:
                self.locks[queue] = (number, self.now)
                granted.append(queue)
        self.follow(number, self.members[number].granted(asked, granted, asked_ms))

    @rule(number=st.integers(0, MEMBERS - 1), data=st.data())
    def leave(self, number: int, data: st.DataObject) -> None:
        owned = set(self.members[number].owned())
        leaving = sorted(self.working[number] - owned)
        if not leaving:
            return
        queue = data.draw(st.sampled_from(leaving))
        self.working[number].discard(queue)
        if self.locks.get(queue, (None,))[0] == number:
            del self.locks[queue]
        self.follow(number, self.members[number].left(queue))

    @rule(ms=st.integers(0, 40_000))
    def wait(self, ms: int) -> None:
        self.now += ms
        for number, member in enumerate(self.members):
            self.follow(number, member.expire(self.now))

    @invariant()
    def no_queue_has_two_who_may_hand_out_its_messages(self) -> None:
        for queue in QUEUES:
            assert sum(member.holds(queue, self.now) for member in self.members) <= 1

    def teardown(self) -> None:
        for _ in range(MEMBERS * 2):
            for number, member in enumerate(self.members):
                self.rebalance(number)
                for queue in sorted(self.working[number] - set(member.owned())):
                    self.working[number].discard(queue)
                    if self.locks.get(queue, (None,))[0] == number:
                        del self.locks[queue]
                    self.follow(number, member.left(queue))
                self.lock(number, 0)
        for queue in QUEUES if self.present else ():
            assert sum(queue in member.owned() for member in self.members) == 1
        assert all(member.is_settled() for member in self.members)


TestMembers = Members.TestCase
TestMembers.settings = settings(max_examples=25, stateful_step_count=40, deadline=None)
