from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.state.member_subscriptions import (
    MEMBERS_SHOWN,
    TOPICS_SHOWN,
    MemberSubscriptions,
    as_text,
)
from cometmq.wire.bodies import SubscriptionData, SubscriptionDifference, tag_subscription


def wants(**tags: str) -> list[SubscriptionData]:
    return [tag_subscription(topic, expression, 1) for topic, expression in tags.items()]


def group(**members: list[SubscriptionData]) -> MemberSubscriptions[str]:
    found = MemberSubscriptions[str]()
    for client_id, subscriptions in members.items():
        assert found.update(f"channel of {client_id}", client_id, subscriptions)
    return found


def test_members_that_want_the_same_do_not_differ() -> None:
    same = group(a=wants(T="x||y", U="*"), b=wants(U="", T=" y || x"))
    assert same.differing() == frozenset() and same.differences() == []
    assert group(a=wants(T="x")).differences() == []


def test_different_tags_are_told_with_who_wants_which() -> None:
    found = group(a=wants(T="x"), b=wants(T="y"), c=wants(T="x"))
    (difference,) = found.differences()
    assert difference == SubscriptionDifference("T", {"x": ["a", "c"], "y": ["b"]})
    assert as_text(difference) == "topic T: a, c want x; b wants y"


def test_a_topic_that_not_all_subscribe_to_is_told() -> None:
    found = group(a=wants(T="*"), b=wants(U="*"))
    assert [as_text(one) for one in found.differences()] == [
        "topic T: a wants *; b wants nothing",
        "topic U: b wants *; a wants nothing",
    ]


def test_another_language_of_filters_is_another_subscription() -> None:
    sql = SubscriptionData("T", "x", "SQL92")
    assert group(a=wants(T="x"), b=[sql]).differences()[0].wants == {"SQL92: x": ["b"], "x": ["a"]}


def test_a_client_that_comes_again_counts_with_its_newest_subscription() -> None:
    found = group(a=wants(T="x"), b=wants(T="x"))
    assert found.update("another channel of a", "a", wants(T="y"))
    assert found.differences()[0].wants == {"x": ["b"], "y": ["a"]}
    assert found.update("channel of b", "b", wants(T="y"))
    assert found.differences() == []
    found.remove("channel of a")
    found.remove("channel of b")
    assert not found.update("another channel of a", "a", wants(T="y"))
    found.remove("another channel of a")
    assert found.update("another channel of a", "a", wants(T="y"))


def test_retry_topics_and_members_that_subscribe_to_nothing_make_no_difference() -> None:
    retry = tag_subscription("%RETRY%g", "*", 1)
    assert group(a=[*wants(T="x"), retry], b=wants(T="x")).differences() == []
    found = MemberSubscriptions[str]()
    found.update("1", "a", wants(T="x"))
    assert not found.update("2", "b", []) or found.differences() == []


def test_only_so_much_is_told_as_people_read() -> None:
    topics = {f"T{number:02}": "x" for number in range(TOPICS_SHOWN + 5)}
    members = {f"m{number}": wants(**topics) for number in range(MEMBERS_SHOWN + 5)}
    found = group(**members, other=wants(U="x" * 500)).differences()
    assert len(found) == TOPICS_SHOWN
    assert max(len(ids) for one in found for ids in one.wants.values()) == MEMBERS_SHOWN


events = st.tuples(
    st.integers(0, 3), st.sampled_from("abc"), st.dictionaries(st.sampled_from("TU"), st.sampled_from("xy"))
)


@given(st.lists(events | st.integers(0, 3), max_size=12))
def test_what_is_kept_is_what_looking_at_all_members_anew_finds(history: list[object]) -> None:
    found = MemberSubscriptions[int]()
    clients: dict[int, str] = {}
    wanted: dict[str, dict[str, str]] = {}
    for event in history:
        channel = event[0] if isinstance(event, tuple) else event
        gone = clients.pop(channel, None)  # type: ignore[arg-type]  # a number
        if isinstance(event, tuple):
            found.update(event[0], event[1], wants(**event[2]))
            clients[event[0]] = event[1]
        else:
            found.remove(event)  # type: ignore[arg-type]  # a number
        if gone is not None and gone not in clients.values():
            wanted.pop(gone, None)
        if isinstance(event, tuple):
            wanted[event[1]] = event[2]
    members = [of_member for of_member in wanted.values() if of_member]
    texts = {
        topic: {of_member.get(topic, "nothing") for of_member in members}
        for topic in {topic for of_member in members for topic in of_member}
    }
    assert found.differing() == {
        (topic, frozenset(different)) for topic, different in texts.items() if len(different) > 1
    }
