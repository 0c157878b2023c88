import pytest
from msgspec.structs import replace

from cometmq.broker.state.consumers import (
    EMPTY_GROUP_MS_MAX,
    WARNING_PERIOD_MS,
    WARNINGS_MAX,
    Consumers,
    Notify,
    subscription_of,
)
from cometmq.broker.state.producers import SILENCE_MS_MAX, ConnectedMember
from cometmq.io.clock import ManualClock
from cometmq.wire.bodies import ConsumerData, MessageModel, SubscriptionData, tag_subscription
from cometmq.wire.codes import LanguageCode

ALL_OF_T = tag_subscription("T", "*", 1)


def data(*subscriptions: SubscriptionData, model: MessageModel = MessageModel.CLUSTERING) -> ConsumerData:
    return ConsumerData("g", subscriptions=list(subscriptions), message_model=model)


def member(clock: ManualClock, client_id: str = "c") -> ConnectedMember:
    return ConnectedMember(client_id, LanguageCode.JAVA, 479, clock.monotonic_ms())


def test_a_new_member_is_told_to_all_and_to_itself() -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    assert consumers.heartbeat("a", data(ALL_OF_T), member(clock)) == Notify("g", ("a",))
    assert consumers.heartbeat("a", data(ALL_OF_T), member(clock)) is None
    assert consumers.heartbeat("b", data(ALL_OF_T), member(clock)) == Notify("g", ("a", "b"))


def test_a_topic_that_comes_or_goes_is_told_and_a_newer_version_is_not() -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    consumers.heartbeat("a", data(ALL_OF_T), member(clock))
    newer = tag_subscription("T", "TagA", 2)
    assert consumers.heartbeat("a", data(newer), member(clock)) is None
    group = consumers.find("g")
    assert group is not None and group.subscriptions["T"].data is newer
    older = tag_subscription("T", "TagB", 1)
    consumers.heartbeat("a", data(older), member(clock))
    assert group.subscriptions["T"].data is newer
    other = tag_subscription("U", "*", 1)
    assert consumers.heartbeat("a", data(newer, other), member(clock)) == Notify("g", ("a",))
    assert consumers.groups_of("U") == {"g"}
    assert consumers.heartbeat("a", data(newer), member(clock)) == Notify("g", ("a",))
    assert consumers.groups_of("U") == set()


def test_who_leaves_or_is_lost_is_told_to_those_who_stay() -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    for channel in ("a", "b", "c"):
        consumers.heartbeat(channel, data(ALL_OF_T), member(clock))
    assert consumers.unregister("a", "g") == Notify("g", ("b", "c"))
    assert consumers.unregister("a", "g") is None
    assert consumers.closed("b") == [Notify("g", ("c",))]
    assert consumers.closed("c") == []


def test_the_ids_of_a_groups_clients_are_sorted_and_each_there_once() -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    for channel, client_id in (("1", "b"), ("2", "a"), ("3", "b")):
        consumers.heartbeat(channel, data(ALL_OF_T), member(clock, client_id))
    group = consumers.find("g")
    assert group is not None
    ids = group.client_ids()
    assert ids == ["a", "b"] and group.client_ids() is ids
    consumers.unregister("1", "g")
    assert group.client_ids() == ["a", "b"]
    consumers.unregister("3", "g")
    assert group.client_ids() == ["a"]
    consumers.heartbeat("2", data(ALL_OF_T), member(clock, "c"))
    assert group.client_ids() == ["c"] and ids == ["a", "b"]


def test_topics_concern_a_group_unless_its_members_subscribe_to_others_only() -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    assert consumers.may_consume("g", "U")
    consumers.heartbeat("a", data(), member(clock))
    assert consumers.may_consume("g", "U")
    consumers.heartbeat("a", data(ALL_OF_T), member(clock))
    assert (consumers.may_consume("g", "T"), consumers.may_consume("g", "U")) == (True, False)
    consumers.closed("a")
    assert consumers.may_consume("g", "U")


def test_members_of_a_broadcasting_group_are_told_nothing() -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    everyone = data(ALL_OF_T, model=MessageModel.BROADCASTING)
    assert consumers.heartbeat("a", everyone, member(clock)) is None


def test_the_subscriptions_of_an_empty_group_are_kept_for_a_while() -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    consumers.heartbeat("a", data(ALL_OF_T), member(clock))
    consumers.closed("a")
    clock.advance(EMPTY_GROUP_MS_MAX)
    consumers.remove_empty()
    group = consumers.find("g")
    assert group is not None and "T" in group.subscriptions
    assert consumers.groups_of("T") == set()
    clock.advance(1)
    consumers.remove_empty()
    assert consumers.find("g") is None


def test_a_group_that_has_members_again_is_not_forgotten() -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    consumers.heartbeat("a", data(ALL_OF_T), member(clock))
    consumers.closed("a")
    consumers.heartbeat("b", data(ALL_OF_T), member(clock))
    clock.advance(EMPTY_GROUP_MS_MAX + 1)
    consumers.remove_empty()
    assert consumers.find("g") is not None


def test_who_is_silent_for_too_long_is_told_of() -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    consumers.heartbeat("a", data(ALL_OF_T), member(clock))
    clock.advance(SILENCE_MS_MAX + 1)
    assert consumers.silent() == {"a"}


def test_a_subscription_knows_the_codes_to_look_for() -> None:
    assert subscription_of(ALL_OF_T).tags_codes is None
    assert subscription_of(tag_subscription("T", "TagA || TagB", 1)).tags_codes == {2598919, 2598920}
    odd = replace(ALL_OF_T, expression="||", codes={5})
    assert subscription_of(odd).tags_codes == {5}


def test_the_last_member_that_leaves_is_told() -> None:
    clock, empty = ManualClock(), list[str]()
    consumers = Consumers[str](clock, empty.append)
    for channel in "ab":
        consumers.heartbeat(channel, data(ALL_OF_T), member(clock))
    consumers.unregister("a", "g")
    assert empty == []
    consumers.closed("b")
    assert empty == ["g"]


def test_a_change_of_what_a_group_wants_is_told_and_nothing_else_is() -> None:
    clock, told = ManualClock(), []
    consumers = Consumers[str](clock)
    consumers.on_change.append(lambda: told.append(1))

    def changes(channel: str, what: ConsumerData) -> int:
        before = len(told)
        consumers.heartbeat(channel, what, member(clock))
        return len(told) - before

    assert changes("a", data(ALL_OF_T)) == 1
    assert changes("a", data(ALL_OF_T)) == changes("b", data(tag_subscription("T", "*", 1))) == 0
    assert changes("b", data(tag_subscription("T", "TagA", 2))) == 1
    assert changes("a", data(ALL_OF_T)) == 0, "it is older"
    assert changes("a", data(ALL_OF_T, model=MessageModel.BROADCASTING)) == 1
    assert changes("a", data(model=MessageModel.BROADCASTING)) == 1
    for channel in "ab":
        consumers.unregister(channel, "g")
    assert len(told) == 4
    clock.advance(EMPTY_GROUP_MS_MAX + 1)
    consumers.remove_empty()
    assert len(told) == 5


def test_a_members_newer_subscription_is_taken_over_between_its_heartbeats() -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    consumers.heartbeat("a", data(tag_subscription("T", "TagA", 2)), member(clock))
    told: list[int] = []
    consumers.on_change.append(lambda: told.append(1))
    assert not consumers.update("a", "g", tag_subscription("T", "TagB", 2)), "it is no newer"
    assert not consumers.update("a", "g", tag_subscription("U", "TagB", 3)), "no heartbeat named the topic"
    assert not consumers.update("b", "g", tag_subscription("T", "TagB", 3)), "it is no member"
    assert not consumers.update("a", "h", tag_subscription("T", "TagB", 3)), "there is no such group"
    assert told == []
    newer = tag_subscription("T", "TagB", 3)
    assert consumers.update("a", "g", newer)
    group = consumers.find("g")
    assert group is not None and group.subscriptions["T"] == subscription_of(newer)
    assert told == [1]


def join(consumers: Consumers[str], clock: ManualClock, name: str, *tags: str) -> None:
    subscriptions = [tag_subscription("T", tag, version) for version, tag in enumerate(tags, 1)]
    consumers.heartbeat(name, data(*subscriptions), replace_id(member(clock), name))


def replace_id(member: ConnectedMember, client_id: str) -> ConnectedMember:
    member.client_id = client_id
    return member


def test_members_that_subscribe_differently_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    caplog.set_level("INFO")
    join(consumers, clock, "a", "TagA")
    for _ in range(3):
        join(consumers, clock, "b", "TagB")
        join(consumers, clock, "a", "TagA")
    join(consumers, clock, "c", "TagB")
    (warning,) = caplog.messages
    assert "group g: members subscribe differently" in warning
    assert "topic T: a wants TagA; b wants TagB" in warning
    ((name, (difference,)),) = consumers.differences()
    assert (name, difference.wants) == ("g", {"TagA": ["a"], "TagB": ["b", "c"]})
    consumers.unregister("a", "g")
    assert list(consumers.differences()) == []
    assert caplog.messages[-1] == "group g: all members subscribe to the same again"


def test_warnings_of_members_that_differ_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    join(consumers, clock, "a", "TagA")
    for number in range(50):
        join(consumers, clock, "b", f"Tag{number}")
    assert len(caplog.messages) == WARNINGS_MAX
    clock.advance(WARNING_PERIOD_MS)
    join(consumers, clock, "b", "Other")
    assert len(caplog.messages) == WARNINGS_MAX + 1


def test_a_client_id_writes_no_lines_of_its_own_into_the_log(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    consumers = Consumers[str](clock)
    for client, tag in (("a", "TagA"), ("b\n2031-01-01 00:00:00,000 ERROR cometmq: lost\x1b[2J", "TagB")):
        join(consumers, clock, client, tag)
    (warning,) = caplog.messages
    assert warning.isprintable() and r"b\n2031-01-01 00:00:00,000 ERROR cometmq: lost\x1b[2J wants" in warning
