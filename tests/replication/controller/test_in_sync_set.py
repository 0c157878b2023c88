from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.replication.controller.model import ModelController, Refusal

from cometmq.replication.controller.client import MAY_BE_DONE
from cometmq.replication.controller.in_sync_set import (
    AWAIT_MS,
    LATE_MS,
    NEAR_BYTES,
    REFUSED_MS,
    SLOW_MS,
    Follower,
    InSyncSet,
    Proposal,
)
from cometmq.replication.epochs import EpochEntry
from cometmq.wire.codes import ResponseCode

ALONE = frozenset({1})
BOTH = frozenset({1, 2})


def new_set(members: frozenset[int] = ALONE, *, epoch_start: int = 0, all_ack: bool = True) -> InSyncSet:
    return InSyncSet(1, EpochEntry(1, epoch_start), members, 1, all_ack=all_ack)


def test_a_master_alone_confirms_all_that_it_has() -> None:
    assert new_set().confirm_offset(100) == 100


def test_a_slave_comes_in_when_it_has_all_and_counts_from_the_request_on() -> None:
    found = new_set()
    slave = found.connect(2, 0)
    assert found.acked(slave, 50, 100, 1) is None, "it is behind what is confirmed"
    assert found.acked(slave, 100, 100, 2) == Proposal(BOTH, 1)
    assert found.members == ALONE and found.counted == BOTH
    assert found.confirm_offset(150) == 100, "the controller may elect it already"
    assert found.acked(slave, 150, 150, 3) is None, "the answer is out"
    assert found.confirm_offset(150) == 150
    found.settle(BOTH, 2, 0)
    assert found.members == BOTH and found.acked(slave, 160, 160, 4) is None


def test_a_slave_that_has_not_reached_the_epoch_stays_out() -> None:
    found = new_set(epoch_start=100, all_ack=False)
    slave = found.connect(2, 0)
    assert found.acked(slave, 99, 99, 1) is None
    assert found.acked(slave, 100, 100, 1) == Proposal(BOTH, 1)


def test_a_learner_never_comes_in() -> None:
    found = new_set()
    assert found.acked(found.connect(2, 0, is_learner=True), 100, 100, 1) is None


def test_a_member_whose_connection_is_lost_counts_until_the_controller_says_so() -> None:
    found = new_set(BOTH)
    slave = found.connect(2, 0)
    found.acked(slave, 100, 100, 0)
    assert found.confirm_offset(100) == 100
    assert found.disconnect(slave, 1) == Proposal(ALONE, 1)
    assert found.confirm_offset(200) == 100
    assert found.check(2) is None, "the answer is out"
    found.settle(ALONE, 2, 0)
    assert found.confirm_offset(200) == 200


def test_a_member_that_lags_goes_out_and_one_that_keeps_up_stays() -> None:
    found = new_set(BOTH)
    slave = found.connect(2, 0)
    found.sent(slave, 100, 10)
    found.acked(slave, 100, 120, 20)  # all that was sent, though the log has grown since
    assert found.check(10 + SLOW_MS) is None
    assert found.check(11 + SLOW_MS) == Proposal(ALONE, 1)


def test_a_lost_connection_does_not_take_the_place_of_the_next_one() -> None:
    found = new_set(BOTH)
    old, new = found.connect(2, 0), found.connect(2, 1)
    found.acked(new, 100, 100, 1)
    assert found.disconnect(old, 2) is None
    assert found.confirm_offset(100) == 100


def test_a_member_that_has_not_reported_yet_holds_back_what_is_confirmed() -> None:
    found = new_set(BOTH)
    found.connect(2, 0)
    assert found.confirm_offset(100) == 0


def test_a_refused_slave_is_proposed_again_later() -> None:
    found = new_set()
    slave = found.connect(9, 0)
    assert found.acked(slave, 100, 100, 0) == Proposal(frozenset({1, 9}), 1)
    found.refused(1)
    assert found.counted == ALONE
    assert found.acked(slave, 100, 100, REFUSED_MS) is None
    assert found.acked(slave, 100, 100, 1 + REFUSED_MS) is not None


def test_a_request_without_an_answer_counts_and_is_repeated() -> None:
    found = new_set()
    slave = found.connect(2, 0)
    found.acked(slave, 100, 100, 0)
    found.unanswered(1)
    assert found.counted == BOTH and found.confirm_offset(200) == 100
    assert found.acked(slave, 200, 200, 1) == Proposal(BOTH, 1)
    found.refused(2)
    assert found.counted == BOTH, "the first request may still be carried out"
    found.settle(ALONE, 1, 1 + LATE_MS)
    assert found.counted == BOTH, "it may still be"
    found.settle(ALONE, 1, 2 + LATE_MS)
    assert found.counted == ALONE, "it was not, and is too late"
    assert found.confirm_offset(300) == 300


def test_without_all_acks_what_is_written_is_confirmed() -> None:
    assert new_set(BOTH, all_ack=False).confirm_offset(100) == 100


STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers(1, 50)),
    st.tuples(st.just("copy"), st.integers(0, 100)),
    st.tuples(st.just("copy"), st.integers(0, 100)),
    st.tuples(st.just("ack"), st.integers(0, 1)),
    st.tuples(st.just("ack"), st.integers(0, 1)),
    st.tuples(st.just("break"), st.integers(0, 1)),
    st.tuples(st.just("check"), st.integers(0, 20_000)),
    st.tuples(st.just("carry out"), st.integers(0, 5)),
    st.tuples(st.just("answer"), st.integers(0, 5)),
    st.tuples(st.just("lose answer"), st.just(0)),
    st.tuples(st.just("read"), st.just(0)),
)


class Cluster:
    """A master, two slaves with their logs, and the controller, which may be late, or do a thing twice."""

    def __init__(self) -> None:
        self.controller = ModelController()
        for broker_id in (1, 2, 3):
            self.controller.apply(broker_id, str(broker_id))
            self.controller.heartbeat(broker_id)
        self.controller.elect(1)
        self.found = InSyncSet(1, EpochEntry(1, 0), ALONE, self.controller.set_epoch, all_ack=True)
        self.log_end = self.now_ms = 0
        self.stored = {2: 0, 3: 0}
        self.followers: dict[int, Follower] = {}
        self.sent: list[tuple[Proposal, int]] = []
        self.answers: list[tuple[frozenset[int], int] | ResponseCode] = []

    def step(self, kind: str, number: int) -> None:
        self.now_ms += 10
        slave = 2 + number % 2
        match kind:
            case "append":
                self.log_end += number
            case "copy":
                self.stored[slave] = min(self.log_end, self.stored[slave] + number // 2)
            case "ack":
                if slave not in self.followers:
                    self.followers[slave] = self.found.connect(slave, self.now_ms)
                self.found.sent(self.followers[slave], self.log_end, self.now_ms)
                self.ask(
                    self.found.acked(self.followers[slave], self.stored[slave], self.log_end, self.now_ms)
                )
            case "break" if slave in self.followers:
                self.ask(self.found.disconnect(self.followers.pop(slave), self.now_ms))
            case "check":
                self.now_ms += number
                self.ask(self.found.check(self.now_ms))
            case "carry out" if self.sent:
                self.carry_out(*self.sent[number % len(self.sent)])
            case "answer" if self.answers:
                self.receive(self.answers.pop(number % len(self.answers)))
            case "lose answer" if self.found._asked is not None:
                self.found.unanswered(self.now_ms)
            case "read":
                self.found.settle(self.controller.in_sync, self.controller.set_epoch, self.now_ms)

    def ask(self, proposal: Proposal | None) -> None:
        if proposal is not None:
            self.answers.clear()
            self.sent.append((proposal, self.now_ms))

    def carry_out(self, proposal: Proposal, sent_ms: int) -> None:
        if self.now_ms - sent_ms > LATE_MS:
            return
        is_last = proposal is self.sent[-1][0]
        try:
            news = self.controller.alter(1, self.controller.epoch, proposal)
        except Refusal as refusal:
            if is_last:
                self.answers.append(refusal.code)
        else:
            self.answers.append((news.in_sync, news.set_epoch))

    def receive(self, answer: tuple[frozenset[int], int] | ResponseCode) -> None:
        if isinstance(answer, tuple):
            self.found.settle(*answer, self.now_ms)
        elif answer in MAY_BE_DONE:
            self.found.unanswered(self.now_ms)
        else:
            self.found.refused(self.now_ms)


@settings(max_examples=150)
@given(st.lists(STEPS, max_size=60))
@example([("ack", 0), ("lose answer", 0), ("read", 0), ("append", 10), ("carry out", 0)])
def test_whoever_the_controller_may_elect_has_all_that_is_confirmed(steps: list[tuple[str, int]]) -> None:
    cluster = Cluster()
    confirmed = 0
    for kind, number in steps:
        members = cluster.found.members
        cluster.step(kind, number)
        if cluster.found.members != members:
            assert kind in ("answer", "read"), "the set changes by the controller's word only"
        previous, confirmed = confirmed, cluster.found.confirm_offset(cluster.log_end)
        assert previous <= confirmed <= cluster.log_end
        for member in cluster.controller.in_sync - {1}:
            assert cluster.stored[member] >= confirmed, "it may be elected"


def test_a_later_epoch_keeps_the_slaves_and_what_is_confirmed() -> None:
    before = InSyncSet(1, EpochEntry(1, 0), frozenset({1, 2}), 1, all_ack=True)
    follower = before.connect(2, 0)
    assert before.acks == {2: None}
    before.acked(follower, 50, 100, 0)
    later = before.next_epoch(EpochEntry(2, 100), frozenset({1, 2}), 2)
    assert later.acks == {2: 50} and later.confirm_offset(100) == 50
    assert (later.entry, later.set_epoch, later.own_id) == (EpochEntry(2, 100), 2, 1)
    later.acked(follower, 120, 120, 0)
    assert later.confirm_offset(120) == 120


def test_under_a_load_that_never_stops_a_slave_that_is_near_is_awaited() -> None:
    found = new_set()
    slave = found.connect(2, 0)
    found.sent(slave, 900, 1)
    assert found.acked(slave, 700, 1_000, 2) is None
    assert found.confirm_offset(1_100) == 1_000, "nothing more is confirmed"
    found.sent(slave, 1_100, 3)
    assert found.acked(slave, 900, 1_200, 4) is None
    assert found.acked(slave, 1_000, 1_300, 5) == Proposal(BOTH, 1), "though more was sent to it"
    assert found.counted == BOTH and found.confirm_offset(1_300) == 1_000


def test_a_slave_that_is_far_behind_is_not_awaited() -> None:
    found = new_set()
    assert found.acked(found.connect(2, 0), 0, NEAR_BYTES + 1, 0) is None
    assert found.confirm_offset(2 * NEAR_BYTES) == 2 * NEAR_BYTES


def test_a_slave_is_awaited_until_it_is_gone_or_too_slow() -> None:
    found = new_set()
    slave = found.connect(2, 0)
    found.acked(slave, 50, 100, 0)
    found.disconnect(slave, 1)
    assert found.confirm_offset(200) == 200
    slave = found.connect(2, 2)
    found.acked(slave, 50, 200, 2)
    assert found.check(2 + AWAIT_MS) is None and found.confirm_offset(300) == 200
    assert found.check(3 + AWAIT_MS) is None and found.confirm_offset(300) == 300
    assert found.acked(slave, 300, 300, 4 + AWAIT_MS) is None, "not at once again"
    assert found.acked(slave, 300, 300, 3 + AWAIT_MS + REFUSED_MS) == Proposal(BOTH, 1)
