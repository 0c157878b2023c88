"""What a name server knows, event by event."""

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from cometmq.errors import FormatError, IllegalName
from cometmq.namesrv.routes import HEARTBEAT_TIMEOUT_MS, RegistrationResult, RemovedBroker, RouteTable
from cometmq.wire.bodies import (
    BrokerData,
    DataVersion,
    QueueData,
    Registration,
    TopicConfig,
    TopicRoute,
    TopicTable,
)
from cometmq.wire.bodies.body import LIMITS
from cometmq.wire.headers import BrokerHeader, RegisterBrokerHeader

MASTER = "192.0.2.1:10911"
SLAVE = "192.0.2.2:10911"


def header(
    addr: str = MASTER,
    broker_id: int = 0,
    *,
    name: str = "broker-a",
    cluster: str = "c",
    acting_master: bool | None = None,
    timeout_ms: int | None = None,
) -> RegisterBrokerHeader:
    ha_addr = addr.replace("10911", "10912")
    return RegisterBrokerHeader(name, addr, cluster, broker_id, ha_addr, timeout_ms, acting_master)


def registration(*topics: str | TopicConfig, counter: int = 1, state_version: int = 0) -> Registration:
    configs = [TopicConfig(topic, 4, 8) if isinstance(topic, str) else topic for topic in topics]
    version = DataVersion(counter, state_version, 7)
    return Registration([], TopicTable(version, {config.topic: config for config in configs}))


def known(*topics: str) -> RouteTable:
    """Return the routes after one master has registered."""
    routes = RouteTable()
    assert routes.register(header(), registration("T", "U", *topics), "link", 0) == RegistrationResult(
        new=True
    )
    return routes


def route_of(routes: RouteTable, topic: str) -> TopicRoute:
    route = routes.route(topic)
    assert route is not None
    return route


def test_a_registered_topic_has_a_route() -> None:
    assert known().route("T") == TopicRoute(
        [BrokerData({0: MASTER}, "broker-a", "c")], [QueueData("broker-a", 6, 4, 8)]
    )


def test_a_topic_that_nobody_registered_has_none() -> None:
    assert known().route("t") is None


def test_a_topic_of_two_brokers_has_the_queues_of_both() -> None:
    routes = known()
    routes.register(header(SLAVE, name="broker-b"), registration("T", "V"), "other", 0)
    route = routes.route("T")
    assert route is not None
    assert [broker.broker_name for broker in route.brokers] == ["broker-a", "broker-b"]
    assert [queue.broker_name for queue in route.queues] == ["broker-a", "broker-b"]
    assert routes.topics() == ["T", "U", "V"]


def test_a_slave_is_told_its_master_and_adds_no_topics() -> None:
    routes = known()
    answer = routes.register(header(SLAVE, 1), registration("T", "Other"), "other", 0)
    assert answer == RegistrationResult("192.0.2.1:10912", MASTER, new=True)
    assert routes.topics() == ["T", "U"]
    broker = routes.broker("broker-a")
    assert broker is not None and broker.addrs == {0: MASTER, 1: SLAVE}


def test_a_slave_without_its_master_is_told_none() -> None:
    assert RouteTable().register(header(SLAVE, 1), registration("T", "U"), "link", 0) == RegistrationResult(
        new=True
    )


def test_a_slave_that_becomes_master_leaves_its_old_id() -> None:
    routes = known()
    routes.register(header(SLAVE, 1), registration("T", "U"), "other", 0)
    routes.unregister(header())
    routes.register(header(SLAVE, 0), registration("T", "U"), "other", 0)
    broker = routes.broker("broker-a")
    assert broker is not None and broker.addrs == {0: SLAVE}


def test_a_changed_topic_is_taken_only_with_a_changed_version() -> None:
    routes = known()
    routes.set_writable("broker-a", writable=False)
    changed = TopicConfig("T", 2, 2, 6)
    routes.register(header(), registration(changed, "U", counter=1), "link", 1)
    assert route_of(routes, "T").queues == [QueueData("broker-a", 4, 4, 8)]
    routes.register(header(), registration(changed, "U", counter=2), "link", 2)
    assert route_of(routes, "T").queues == [QueueData("broker-a", 6, 2, 2)]


def test_a_topic_deleted_here_comes_back_with_the_next_registration() -> None:
    routes = known()
    routes.delete_topic("T")
    assert routes.topics() == ["U"]
    routes.register(header(), registration("T", "U"), "link", 1)
    assert routes.topics() == ["T", "U"]


def test_one_changed_topic_of_an_unknown_broker_is_refused_and_leaves_no_trace() -> None:
    routes = RouteTable()
    assert routes.register(header(), registration("T"), "link", 0) is None
    assert routes.topics() == [] and routes.cluster_info().brokers == {}
    assert routes.disconnect("link") == []


def test_one_changed_topic_of_a_known_broker_is_added() -> None:
    routes = known()
    assert routes.register(header(), registration("New", counter=2), "link", 0) == RegistrationResult()
    assert routes.topics() == ["New", "T", "U"]


def test_a_process_with_an_older_state_does_not_take_anothers_place() -> None:
    routes = RouteTable()
    routes.register(header(), registration("T", "U", state_version=5), "link", 0)
    routes.register(header(SLAVE), registration("X", "Y", state_version=4), "late", 0)
    assert routes.topics() == ["T", "U"]
    assert route_of(routes, "T").brokers[0].addrs == {0: MASTER}
    routes.register(header(SLAVE), registration("X", "Y", state_version=6), "late", 0)
    assert route_of(routes, "T").brokers[0].addrs == {0: SLAVE}
    assert routes.disconnect("link") == [RemovedBroker("broker-a", MASTER, "link")]
    assert route_of(routes, "T").brokers[0].addrs == {0: SLAVE}


def test_who_takes_the_place_of_a_live_broker_is_told_whose_it_was() -> None:
    routes = RouteTable()
    table = registration("T", "U")
    assert routes.register(header(), table, "link", 0) == RegistrationResult(new=True)
    again = routes.register(header(), table, "link", 1)
    assert again is not None and again.displaced is None
    taken = routes.register(header(SLAVE), table, "stranger", 2)
    assert taken is not None and taken.displaced == MASTER
    slave = routes.register(header("192.0.2.3:10911", 1), table, "slave", 3)
    assert slave is not None and slave.displaced is None


def test_the_place_of_a_broker_that_is_gone_is_free() -> None:
    routes = RouteTable()
    routes.register(header(), registration("T", "U"), "link", 0)
    routes.register(header(SLAVE, 1), registration("T", "U"), "other", 0)
    routes.disconnect("link")
    found = routes.register(header("192.0.2.3:10911"), registration("T", "U"), "new", 1)
    assert found is not None and found.displaced is None


def test_a_broker_that_registers_under_another_name_leaves_the_former() -> None:
    routes = known()
    routes.register(header(name="renamed"), registration("T", "V"), "link", 1)
    assert [broker.broker_name for broker in route_of(routes, "T").brokers] == ["renamed"]
    assert routes.topics() == ["T", "V"]
    routes.unregister(BrokerHeader("broker-a", MASTER, "c", 0))  # of the former, late
    assert routes.disconnect("link") == [RemovedBroker("renamed", MASTER, "link")]
    assert routes.topics() == []


def test_a_broker_that_changes_its_cluster_outlives_its_former_registration() -> None:
    routes = known()
    late = HEARTBEAT_TIMEOUT_MS + 1
    routes.register(header(cluster="d"), registration("T", "U"), "new link", late)
    assert routes.expire(late) == [] and routes.disconnect("link") == []
    assert routes.cluster_info().clusters == {"d": ["broker-a"]}


def test_an_outranked_process_leaves_no_trace() -> None:
    routes = RouteTable()
    routes.register(header(), registration("T", "U", state_version=6), "link", 0)
    routes.register(header(SLAVE, 1), registration("T", "U", state_version=5), "other", 0)
    routes.register(header(SLAVE), registration("T", "U", state_version=5), "other", 1)
    assert route_of(routes, "T").brokers[0].addrs == {0: MASTER}


def test_a_broker_goes_with_its_topics_when_it_unregisters() -> None:
    routes = known()
    routes.unregister(BrokerHeader("broker-a", MASTER, "c", 0))
    assert routes.route("T") is None and routes.topics() == []
    assert routes.cluster_info().clusters == {}


def test_an_unregistration_of_somebody_unknown_changes_nothing() -> None:
    routes = known()
    routes.unregister(BrokerHeader("broker-a", SLAVE, "c", 0))
    routes.unregister(BrokerHeader("nobody", MASTER, "c2", 0))
    assert routes.route("T") is not None


def test_the_others_of_a_group_stay_when_one_goes() -> None:
    routes = known()
    routes.register(header(SLAVE, 1), registration("T", "U"), "other", 0)
    assert routes.disconnect("link") == [RemovedBroker("broker-a", MASTER, "link")]
    route = routes.route("T")
    assert route is not None and route.brokers[0].addrs == {1: SLAVE}
    assert route.queues[0].perm == 6


def test_a_broker_that_came_back_over_another_connection_outlives_the_old_one() -> None:
    routes = known()
    routes.register(header(), registration("T", "U"), "new link", 1)
    assert routes.disconnect("link") == []
    assert routes.route("T") is not None


def test_a_broker_expires_after_its_own_time_without_a_word() -> None:
    routes = known()
    routes.register(header(SLAVE, name="b", timeout_ms=1_000), registration("V", "W"), "other", 0)
    assert routes.expire(1_000) == []
    assert routes.expire(1_001) == [RemovedBroker("b", SLAVE, "other")]
    assert routes.expire(HEARTBEAT_TIMEOUT_MS) == []
    routes.heartbeat("c", MASTER, HEARTBEAT_TIMEOUT_MS)
    assert routes.expire(2 * HEARTBEAT_TIMEOUT_MS) == []
    assert routes.expire(2 * HEARTBEAT_TIMEOUT_MS + 1) == [RemovedBroker("broker-a", MASTER, "link")]
    assert routes.topics() == []


def test_a_heartbeat_of_somebody_unknown_makes_nobody_known() -> None:
    routes = RouteTable()
    routes.heartbeat("c", MASTER, 0)
    assert routes.cluster_info().brokers == {} and routes.data_version("c", MASTER) is None


def test_the_version_that_a_broker_registered_is_known() -> None:
    assert known().data_version("c", MASTER) == DataVersion(1, 0, 7)


def test_an_acting_master_can_be_read_but_not_written() -> None:
    routes = RouteTable()
    routes.register(header(acting_master=True), registration("T", "U"), "link", 0)
    routes.register(header(SLAVE, 1, acting_master=True), registration("T", "U"), "other", 0)
    assert route_of(routes, "T").queues[0].perm == 6
    routes.unregister(header())
    assert route_of(routes, "T").queues[0].perm == 4
    routes.register(header(SLAVE, 1, acting_master=True), registration("T", "V", counter=9), "other", 0)
    assert {queue.perm for topic in "TV" for queue in route_of(routes, topic).queues} == {4}


@pytest.mark.parametrize(
    ("acting_masters", "allowed", "addrs"),
    [
        (True, True, {0: SLAVE, 2: "192.0.2.3:10911"}),
        (True, False, {1: SLAVE, 2: "192.0.2.3:10911"}),
        (False, True, {1: SLAVE, 2: "192.0.2.3:10911"}),
    ],
    ids=["acts", "not allowed by its brokers", "not allowed by the name server"],
)
def test_while_a_master_is_gone_its_first_slave_has_its_place_in_routes(
    *, acting_masters: bool, allowed: bool, addrs: dict[int, str]
) -> None:
    routes = RouteTable(acting_masters=acting_masters)
    others = {1: SLAVE, 2: "192.0.2.3:10911"}
    routes.register(header(acting_master=allowed), registration("T", "U"), "link", 0)
    for broker_id, addr in others.items():
        routes.register(header(addr, broker_id, acting_master=allowed), registration("T", "U"), addr, 0)
    whole = route_of(routes, "T")
    assert whole.brokers[0].addrs == {0: MASTER, **others} and whole.queues[0].perm == 6
    routes.disconnect("link")
    route = route_of(routes, "T")
    assert route.brokers[0].addrs == addrs and route.queues[0].perm == (4 if allowed else 6)
    assert routes.cluster_info().brokers["broker-a"].addrs == others
    routes.register(header(acting_master=allowed), registration("T", "U"), "link", 0)
    assert route_of(routes, "T") == whole


def test_write_permission_is_taken_and_given_for_all_topics_of_a_broker() -> None:
    routes = known()
    assert routes.set_writable("broker-a", writable=False) == 2
    assert route_of(routes, "U").queues[0].perm == 4
    assert routes.set_writable("broker-a", writable=True) == 2
    assert route_of(routes, "U").queues[0].perm == 6
    assert routes.set_writable("nobody", writable=False) == 0


def test_a_route_that_was_given_out_does_not_change() -> None:
    routes = known()
    before = routes.route("T")
    routes.set_writable("broker-a", writable=False)
    routes.register(header(SLAVE, 1), registration("T", "U"), "other", 0)
    routes.disconnect("link")
    assert before == known().route("T")


def test_topics_are_listed_and_deleted_by_cluster() -> None:
    routes = known()
    routes.register(header(SLAVE, name="b", cluster="d"), registration("T", "V"), "other", 0)
    assert routes.topics("c") == ["T", "U"]
    assert routes.topics("d") == ["T", "V"]
    assert routes.topics("e") == []
    assert routes.cluster_info().clusters == {"c": ["broker-a"], "d": ["b"]}
    routes.delete_topic("T", "c")
    assert routes.topics("c") == ["U"]
    assert routes.topics("d") == ["T", "V"]
    routes.delete_topic("nothing")


def test_topics_are_found_by_their_system_flags() -> None:
    routes = RouteTable()
    configs = [TopicConfig(f"T{flags}", sys_flag=flags) for flags in range(4)]
    routes.register(header(), registration(*configs), "link", 0)
    assert routes.topics_with_flags(wanted=1) == ["T1", "T3"]
    assert routes.topics_with_flags(wanted=2) == ["T2", "T3"]
    assert routes.topics_with_flags(wanted=2, unwanted=1) == ["T2"]


def test_a_topic_is_added_only_on_brokers_that_are_known() -> None:
    routes = known()
    assert not routes.add_topic("New", [QueueData("broker-a", 6, 1, 1), QueueData("nobody", 6, 1, 1)])
    assert not routes.add_topic("New", [])
    assert routes.topics() == ["T", "U"]
    assert routes.add_topic("New", [QueueData("broker-a", 6, 1, 1)])
    assert route_of(routes, "New").queues == [QueueData("broker-a", 6, 1, 1)]
    with pytest.raises(IllegalName):
        routes.add_topic("../New", [QueueData("broker-a", 6, 1, 1)])


def test_static_topics_are_kept_as_they_are_and_go_with_their_broker() -> None:
    routes = RouteTable()
    body = registration("T", "U")
    body.table.mapping_infos = {"T": {"bname": "broker-a", "currIdMap": {"0": 0}}}
    routes.register(header(), body, "link", 0)
    assert route_of(routes, "T").mappings == {"broker-a": {"bname": "broker-a", "currIdMap": {"0": 0}}}
    assert route_of(routes, "U").mappings is None
    routes.disconnect("link")
    body.table.mapping_infos = None
    routes.register(header(), body, "link", 0)
    assert route_of(routes, "T").mappings is None


@pytest.mark.parametrize(
    "illegal",
    [
        header(name=""),
        header(name="../broker"),
        header(name="a" * 256),
        header(cluster="c\n"),
        header(cluster="c d"),
        header(addr="nowhere"),
        header(addr="192.0.2.1:99999"),
    ],
)
def test_names_and_addresses_that_cannot_be_used_are_refused(illegal: RegisterBrokerHeader) -> None:
    routes = RouteTable()
    with pytest.raises(IllegalName):
        routes.register(illegal, registration("T", "U"), "link", 0)
    assert routes.cluster_info().brokers == {}


def test_a_host_name_can_name_a_broker() -> None:
    routes = RouteTable()
    for name in ("ip-1.example", "room@broker-a"):
        routes.register(header("[2001:db8::1]:10911", name=name), registration("T", "U"), "link", 0)
        assert routes.broker(name) is not None


def test_a_topic_with_an_illegal_name_is_passed_over_and_the_others_are_not() -> None:
    routes = RouteTable()
    answer = routes.register(header(), registration("T", "../U", "V" * 300, "%RETRY%g+T"), "link", 0)
    illegal = "its name is illegal"
    left_out = f"topic '../U': {illegal}", f"topic '{'V' * 79}: {illegal}"
    assert answer == RegistrationResult(new=True, left_out=left_out)
    assert sorted(routes.topics()) == ["%RETRY%g+T", "T"]


@pytest.mark.parametrize(
    ("asked", "nearest"),
    [
        ("orderevents", "OrderEvents"),
        ("OrderEvent", "OrderEvents"),
        ("OderEvents", "OrderEvents"),
        ("zzz", None),
        ("", None),
    ],
)
def test_the_nearest_name_to_a_mistyped_one_is_found(asked: str, nearest: str | None) -> None:
    routes = RouteTable()
    routes.register(header(), registration("OrderEvents", "Payments", "TBW102"), "link", 0)
    assert routes.nearest_topic(asked) == nearest


names = st.sampled_from(["a", "b"])
ids = st.integers(0, 2)
topic_sets = st.sets(st.sampled_from("TUVW"), min_size=2)


class AnyOrderOfEvents(RuleBasedStateMachine):
    """Brokers come and go in any order; the routes are those of the brokers that are there."""

    def __init__(self) -> None:
        super().__init__()
        self.routes = RouteTable()
        self.now_ms = 0
        self.counter = 0
        self.heard: dict[tuple[str, int], int] = {}
        self.topics: dict[str, set[str]] = {}

    def addr(self, name: str, broker_id: int) -> str:
        return f"{name}:{broker_id + 1}"

    def lose(self, lost: list[tuple[str, int]]) -> None:
        for key in lost:
            self.heard.pop(key, None)
            if not any(name == key[0] for name, _ in self.heard):
                self.topics.pop(key[0], None)

    @rule(name=names, broker_id=ids, topics=topic_sets)
    def register(self, name: str, broker_id: int, topics: set[str]) -> None:
        self.counter += 1
        body = registration(*sorted(topics), counter=self.counter)
        who = header(self.addr(name, broker_id), broker_id, name=name)
        assert self.routes.register(who, body, (name, broker_id), self.now_ms) is not None
        self.heard[name, broker_id] = self.now_ms
        if broker_id == 0:
            self.topics.setdefault(name, set()).update(topics)

    @rule(name=names, broker_id=ids)
    def unregister(self, name: str, broker_id: int) -> None:
        self.routes.unregister(BrokerHeader(name, self.addr(name, broker_id), "c", broker_id))
        self.lose([(name, broker_id)])

    @rule(name=names, broker_id=ids)
    def disconnect(self, name: str, broker_id: int) -> None:
        gone = self.routes.disconnect((name, broker_id))
        assert len(gone) == ((name, broker_id) in self.heard)
        self.lose([(name, broker_id)])

    @rule(name=names, broker_id=ids)
    def heartbeat(self, name: str, broker_id: int) -> None:
        self.routes.heartbeat("c", self.addr(name, broker_id), self.now_ms)
        if (name, broker_id) in self.heard:
            self.heard[name, broker_id] = self.now_ms

    @precondition(lambda self: self.heard)
    @rule(ms=st.integers(0, HEARTBEAT_TIMEOUT_MS))
    def expire(self, ms: int) -> None:
        self.now_ms += ms
        silent = [key for key, heard in self.heard.items() if self.now_ms - heard > HEARTBEAT_TIMEOUT_MS]
        assert sorted(gone.addr for gone in self.routes.expire(self.now_ms)) == sorted(
            self.addr(*key) for key in silent
        )
        self.lose(silent)

    @invariant()
    def the_brokers_are_those_heard_of(self) -> None:
        found = {
            (name, broker_id)
            for name, broker in self.routes.cluster_info().brokers.items()
            for broker_id in broker.addrs
        }
        assert found == set(self.heard)

    @invariant()
    def the_topics_are_those_of_the_groups_that_are_there(self) -> None:
        assert set(self.routes.topics()) == {topic for topics in self.topics.values() for topic in topics}
        for topic in self.routes.topics():
            route = self.routes.route(topic)
            assert route is not None
            owners = {name for name, topics in self.topics.items() if topic in topics}
            assert {queue.broker_name for queue in route.queues} == owners
            assert {broker.broker_name for broker in route.brokers} == owners


TestAnyOrderOfEvents = AnyOrderOfEvents.TestCase
TestAnyOrderOfEvents.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


ABSURD = 2**31 - 1


@pytest.mark.parametrize(
    ("read", "write", "says"),
    [
        (ABSURD, 4, "2147483647 queues to read on broker 'broker-a', not 0 to 65535 (topicQueuesMax)"),
        (4, 65_536, "65536 queues to write on broker 'broker-a', not 0 to 65535 (topicQueuesMax)"),
        (-1, 4, "-1 queues to read on broker 'broker-a', not 0 to 65535 (topicQueuesMax)"),
    ],
)
def test_a_topic_of_too_many_queues_is_left_out_and_named_once(read: int, write: int, says: str) -> None:
    routes = RouteTable()
    body = registration("T", TopicConfig("U", read, write))
    assert routes.register(header(), body, "link", 0) == RegistrationResult(
        new=True, left_out=(f"topic 'U': {says}",)
    )
    assert routes.topics() == ["T"] and routes.route("U") is None
    assert routes.register(header(), body, "link", 1) == RegistrationResult()


def test_a_topic_that_gets_too_many_queues_stays_as_it_was() -> None:
    routes = known()
    result = routes.register(header(), registration("T", TopicConfig("U", ABSURD, 4), counter=2), "link", 0)
    assert result is not None and len(result.left_out) == 1
    assert route_of(routes, "U").queues == [QueueData("broker-a", 6, 4, 8)]


def test_an_illegal_name_is_named_once() -> None:
    routes, body = RouteTable(), registration("T", "../U")
    first = routes.register(header(), body, "link", 0)
    assert first is not None and first.left_out == ("topic '../U': its name is illegal",)
    assert routes.register(header(), body, "link", 0) == RegistrationResult()


def test_the_queues_of_all_brokers_have_a_limit() -> None:
    routes = RouteTable(limits=LIMITS._replace(route_queues=20))
    routes.register(header(), registration("T", "U"), "link", 0)  # 8 queues each
    routes.register(header("192.0.2.3:10911", name="broker-b"), registration("T", "U"), "b", 0)
    third = header("192.0.2.4:10911", name="broker-c")
    result = routes.register(third, registration("T", TopicConfig("U", 4, 4)), "c", 0)
    assert result == RegistrationResult(
        new=True, left_out=("topic 'T': 24 queues on all brokers, more than 20 (routeQueuesMax)",)
    )
    assert [queue.broker_name for queue in route_of(routes, "T").queues] == ["broker-a", "broker-b"]
    assert len(route_of(routes, "U").queues) == 3
    routes.disconnect("b")
    routes.register(third, registration("T", TopicConfig("U", 4, 4)), "c", 0)
    assert [queue.broker_name for queue in route_of(routes, "T").queues] == ["broker-a", "broker-c"]


def test_the_topics_of_all_brokers_have_a_limit() -> None:
    routes = RouteTable(limits=LIMITS._replace(route_topics=3))
    routes.register(header(), registration("T", "U"), "link", 0)
    other = header("192.0.2.3:10911", name="broker-b")
    result = routes.register(other, registration("T", "U", "V"), "b", 0)
    no_place = "no place, as brokers have 3 topics already (routeTopicsMax)"
    assert result == RegistrationResult(
        new=True, left_out=(f"topic 'U': {no_place}", f"topic 'V': {no_place}")
    )
    routes.register(header(), registration("T", "U", counter=2), "link", 0)  # those that are there may change
    routes.delete_topic("T")
    routes.register(other, registration("T", "U", "V"), "b", 0)
    assert [queue.broker_name for queue in route_of(routes, "U").queues] == ["broker-a", "broker-b"]
    with pytest.raises(FormatError, match="no place"):
        routes.add_topic("W", [QueueData("broker-a", 6, 1, 1)])
    routes.disconnect("link")
    assert routes.add_topic("W", [QueueData("broker-b", 6, 1, 1)])


def test_a_topic_of_too_many_queues_cannot_be_added() -> None:
    routes = known()
    with pytest.raises(FormatError, match="topic New has 2147483647 queues to write on broker 'broker-a'"):
        routes.add_topic("New", [QueueData("broker-a", 6, 1, ABSURD)])
    assert routes.route("New") is None


@pytest.mark.parametrize(
    ("mapping", "says"),
    [
        ({"totalQueues": ABSURD}, "2147483647 mapped queues, not 0 to 65535 (topicQueuesMax)"),
        ({"totalQueues": -1}, "-1 mapped queues"),
        ({"totalQueues": "x"}, "'x' mapped queues"),
        ({"currIdMap": dict.fromkeys(map(str, range(65_536)), 0)}, "more than 65535 queues"),
        ({"currIdMap": [1]}, "is no object"),
        ({"currIdMap": {"0": [[]]}}, "nested deeper"),
        ({"more": {}}, "nested deeper"),
        ([], "no object"),
    ],
)
def test_a_static_topic_that_cannot_be_is_left_out(mapping: object, says: str) -> None:
    routes, body = RouteTable(), registration("T", "U")
    body.table.mapping_infos = {"T": mapping, "U": {"totalQueues": 1, "currIdMap": {"0": 0}}}
    result = routes.register(header(), body, "link", 0)
    assert result is not None and len(result.left_out) == 1 and says in result.left_out[0]
    assert route_of(routes, "T").mappings is None and route_of(routes, "U").mappings is not None


def test_a_static_topic_needs_its_topic() -> None:
    routes, body = RouteTable(), registration("T", "U")
    body.table.mapping_infos = {"V": {"totalQueues": 1}}
    result = routes.register(header(), body, "link", 0)
    assert result is not None and result.left_out == ("static topic 'V': the broker has no such topic",)
