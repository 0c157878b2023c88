import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.replication.controller.model import ModelController, Refusal

from cometmq.replication.controller.identity import IdApplication
from cometmq.replication.controller.life import (
    HEARTBEAT_MS,
    LEADER_MS,
    LEADER_RETRY_MS,
    REPLICAS_MS,
    RETRY_MS,
    Apply,
    AskNextId,
    AskReplicas,
    BecomeMaster,
    BecomeSlave,
    BrokerLife,
    DropApplication,
    Elect,
    FindLeader,
    Instruction,
    KeepId,
    MasterNews,
    Register,
    SendHeartbeats,
    SettleSet,
    Stage,
    Unfence,
    WarnOldEpoch,
)

OWN = "127.0.0.1:10911"
OTHER = "127.0.0.1:20911"
MASTER_1 = MasterNews(1, OWN, 1, frozenset({1}), 1)
SLAVE_OF_2 = MasterNews(2, OTHER, 5, frozenset({2}), 9)


def new_master() -> BrokerLife:
    life = BrokerLife(OWN, broker_id=1)
    life.leader_found(0)
    life.news(MASTER_1, 0)
    return life


def test_a_new_broker_gets_an_id_and_is_elected() -> None:
    life = BrokerLife(OWN)
    application = IdApplication(1, f"{OWN};7")
    assert life.tick(0) == [FindLeader()]
    assert life.leader_found(5) == [AskNextId()]
    assert life.id_offered(1, 7) == [Apply(application)]
    assert life.id_assigned(1, 8) == [KeepId(1), Register(1)]
    assert life.fenced
    assert life.news(MasterNews(), 9) == [SendHeartbeats(), Elect()]
    assert life.news(MASTER_1, 10) == [SendHeartbeats(), BecomeMaster(MASTER_1, stays=False), Unfence()]
    assert life.stage is Stage.MASTER and not life.fenced


def test_a_broker_with_an_id_follows_the_master_that_lives() -> None:
    life = BrokerLife(OWN, broker_id=1)
    assert life.leader_found(0) == [Register(1)]
    assert life.news(SLAVE_OF_2, 1) == [SendHeartbeats(), BecomeSlave(SLAVE_OF_2, stays=False), Unfence()]
    assert life.stage is Stage.SLAVE


def test_a_broker_that_crashed_while_it_applied_applies_again_with_the_same_code() -> None:
    application = IdApplication(3, f"{OWN};7")
    life = BrokerLife(OWN, application=application)
    assert life.leader_found(100) == [Apply(application)]
    assert life.id_assigned(3, 101) == [KeepId(3), Register(3)]


def test_an_id_of_another_broker_is_given_up_for_the_next() -> None:
    life = BrokerLife(OWN, application=IdApplication(1, "x"))
    life.leader_found(0)
    assert life.id_refused(1, 1) == [DropApplication(), AskNextId()]
    assert life.id_refused(1, 1) == [], "come twice"
    assert life.id_offered(2, 2) == [Apply(IdApplication(2, f"{OWN};2"))]


def test_a_question_that_fails_is_asked_again_after_a_while() -> None:
    life = BrokerLife(OWN, broker_id=1)
    assert life.tick(0) == [FindLeader()]
    life.failed(10)
    assert life.tick(10 + LEADER_RETRY_MS - 1) == []
    assert life.tick(10 + LEADER_RETRY_MS) == [FindLeader()]
    assert life.leader_found(2_000) == [Register(1)]
    life.failed(2_001)
    assert life.tick(2_000 + RETRY_MS) == []
    assert life.tick(2_001 + RETRY_MS) == [Register(1)]


def test_without_a_winner_the_election_is_asked_for_again_not_at_once() -> None:
    life = BrokerLife(OWN, broker_id=1)
    life.leader_found(0)
    assert life.news(MasterNews(epoch=3), 0) == [SendHeartbeats(), Elect()]
    assert life.news(MasterNews(epoch=4), 1) == []
    assert life.tick(HEARTBEAT_MS) == [SendHeartbeats()]
    assert life.tick(RETRY_MS) == [SendHeartbeats(), Elect()]


def test_heartbeats_and_questions_come_at_their_intervals() -> None:
    life = new_master()
    asked = {now: life.tick(now) for now in range(0, LEADER_MS + 1, 500)}
    sent = [now for now, due in asked.items() if SendHeartbeats() in due]
    assert sent == list(range(HEARTBEAT_MS, LEADER_MS + 1, HEARTBEAT_MS))
    assert [now for now, due in asked.items() if AskReplicas() in due] == [REPLICAS_MS, 2 * REPLICAS_MS]
    assert [now for now, due in asked.items() if FindLeader() in due] == [LEADER_MS]


def test_a_notice_of_a_later_epoch_makes_a_master_a_slave_and_back() -> None:
    life = new_master()
    assert life.news(SLAVE_OF_2, 1) == [BecomeSlave(SLAVE_OF_2, stays=False)]
    again = MasterNews(1, OWN, 6, frozenset({1}), 10)
    assert life.news(again, 2) == [BecomeMaster(again, stays=False)]
    later = MasterNews(1, OWN, 8, frozenset({1}), 12)
    assert life.news(later, 3) == [BecomeMaster(later, stays=True)]


def test_what_is_older_or_come_twice_changes_nothing() -> None:
    life = new_master()
    life.news(SLAVE_OF_2, 1)
    assert life.news(SLAVE_OF_2, 2) == []
    assert life.news(MASTER_1, 3) == []
    assert life.stage is Stage.SLAVE and life.epoch == 5


def test_only_a_master_settles_the_set_and_no_older_one() -> None:
    life = new_master()
    assert life.news(MASTER_1._replace(in_sync=frozenset({1, 2}), set_epoch=2), 1) == [
        SettleSet(frozenset({1, 2}), 2)
    ]
    assert life.news(MASTER_1, 2) == [], "an older one"
    life.news(SLAVE_OF_2, 3)
    assert life.news(SLAVE_OF_2._replace(set_epoch=20), 4) == []


def test_a_set_that_was_asked_for_in_this_epoch_is_the_last_known() -> None:
    life = new_master()
    life.set_settled(1, 2)
    assert life.news(MASTER_1, 1) == [], "an older one"
    life.set_settled(0, 9)
    assert life.set_epoch == 2


def test_a_set_without_a_master_asks_for_an_election_if_that_is_news() -> None:
    life = new_master()
    assert life.news(MasterNews(epoch=1), 1) == [], "from before the election"
    assert life.news(MasterNews(epoch=2), 20_000) == [SendHeartbeats(), Elect()]
    assert life.stage is Stage.MASTER, "its role changes by the controller's word only"


def test_a_broker_that_the_controller_forgot_registers_again() -> None:
    assert new_master().unregistered(1) == [Register(1)]
    assert BrokerLife(OWN).unregistered(1) == []


def test_no_master_of_an_older_epoch_than_the_logs_is_followed() -> None:
    life = BrokerLife(OWN, broker_id=1, log_epoch=7)
    life.leader_found(0)
    assert life.news(SLAVE_OF_2, 1) == [WarnOldEpoch(5, 7)]
    assert life.fenced
    life = new_master()
    life.log_reached(6)
    assert life.news(SLAVE_OF_2, 1) == [WarnOldEpoch(5, 6)]


@pytest.mark.parametrize("stage", [0, 1])
def test_answers_to_questions_of_another_stage_change_nothing(stage: int) -> None:
    life = BrokerLife(OWN) if stage == 0 else new_master()
    assert life.id_offered(4, 1) == life.id_assigned(4, 1) == life.id_refused(4, 1) == []
    assert stage == 1 or life.news(MASTER_1, 1) == []


class World:
    """Three brokers and a controller; what they say to each other waits, gets lost, or comes twice."""

    def __init__(self) -> None:
        self.controller = ModelController()
        self.lives = [BrokerLife(f"127.0.0.1:{n}") for n in range(3)]
        self.waiting: list[tuple[int, Instruction | MasterNews]] = []
        self.masters: dict[int, set[int]] = {}
        self.now_ms = 0

    def put(self, broker: int, said: list[Instruction]) -> None:
        for instruction in said:
            if isinstance(instruction, BecomeMaster):
                self.masters.setdefault(instruction.news.epoch, set()).add(broker)
            elif isinstance(instruction, Unfence):
                assert self.lives[broker].stage in (Stage.MASTER, Stage.SLAVE)
            self.waiting.append((broker, instruction))

    def tick(self, broker: int) -> None:
        self.now_ms += 1_000
        self.put(broker, self.lives[broker].tick(self.now_ms))

    def deliver(self, place: int, keeps: bool) -> None:
        if not self.waiting:
            return
        broker, said = self.waiting[place % len(self.waiting)]
        if not keeps:
            self.waiting.remove((broker, said))
        try:
            self.answer(broker, self.lives[broker], said)
        except Refusal:
            self.lives[broker].failed(self.now_ms)

    def answer(self, broker: int, life: BrokerLife, said: Instruction | MasterNews) -> None:
        controller, now = self.controller, self.now_ms
        match said:
            case MasterNews():
                self.put(broker, life.news(said, now))
            case FindLeader():
                self.put(broker, life.leader_found(now))
            case AskNextId():
                self.put(broker, life.id_offered(controller.next_id(), now))
            case Apply(application):
                try:
                    controller.apply(*application)
                except Refusal:
                    self.put(broker, life.id_refused(application.broker_id, now))
                else:
                    self.put(broker, life.id_assigned(application.broker_id, now))
            case Register(broker_id):
                self.waiting.append((broker, controller.register(broker_id, life._address)))
            case SendHeartbeats() if life.broker_id is not None:
                controller.heartbeat(life.broker_id)
            case Elect() if life.broker_id is not None:
                self.waiting.append((broker, controller.elect(life.broker_id)))
            case AskReplicas():
                self.waiting.append((broker, controller.news()))

    def lose(self, broker: int) -> None:
        life = self.lives[broker]
        if life.broker_id is None:
            return
        found = self.controller.lose(life.broker_id)
        if found is not None:
            self.waiting += [(other, found) for other in range(3)]

    def restart(self, broker: int) -> None:
        life = self.lives[broker]
        self.lives[broker] = BrokerLife(
            life._address, broker_id=life.broker_id, application=life._application, log_epoch=life._log_epoch
        )


STEPS = st.one_of(
    st.tuples(st.just("tick"), st.integers(0, 2)),
    st.tuples(st.just("deliver"), st.integers(0, 30)),
    st.tuples(st.just("deliver"), st.integers(0, 30)),
    st.tuples(st.just("deliver_keeping"), st.integers(0, 30)),
    st.tuples(st.just("drop"), st.integers(0, 30)),
    st.tuples(st.just("lose"), st.integers(0, 2)),
    st.tuples(st.just("restart"), st.integers(0, 2)),
)


@settings(max_examples=100)
@given(st.lists(STEPS, max_size=80))
def test_no_epoch_has_two_masters_and_no_broker_goes_back(steps: list[tuple[str, int]]) -> None:
    world = World()
    for kind, number in [("tick", 0), *(("deliver", 0),) * 12, *steps]:
        epochs = [life.epoch for life in world.lives]
        if kind == "tick":
            world.tick(number)
        elif kind.startswith("deliver"):
            world.deliver(number, keeps=kind == "deliver_keeping")
        elif kind == "drop" and world.waiting:
            world.waiting.pop(number % len(world.waiting))
        elif kind == "lose":
            world.lose(number)
        elif kind == "restart":
            world.restart(number)
            epochs[number] = 0
        assert all(life.epoch >= epoch for life, epoch in zip(world.lives, epochs, strict=True))
        ids = [life.broker_id for life in world.lives if life.broker_id is not None]
        assert len(ids) == len(set(ids)), "each broker has an id of its own"
    for epoch, brokers in world.masters.items():
        (broker,) = brokers
        assert world.lives[broker].broker_id == world.controller.masters[epoch]


def test_brokers_of_a_set_settle_on_one_master_when_all_is_delivered() -> None:
    world = World()
    for _ in range(8):
        for broker in range(3):
            world.tick(broker)
        while world.waiting:
            world.deliver(0, keeps=False)
    assert sorted(life.stage for life in world.lives) == [Stage.MASTER, Stage.SLAVE, Stage.SLAVE]
    assert {life.master_id for life in world.lives} == {world.controller.master}
