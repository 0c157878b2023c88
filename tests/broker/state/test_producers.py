import pytest

from cometmq.broker.state import producers as state
from cometmq.broker.state.producers import SILENCE_MS_MAX, ConnectedMember, Producers
from cometmq.io.clock import ManualClock
from cometmq.wire.codes import LanguageCode


def member(clock: ManualClock, client_id: str = "c", user: str = "") -> ConnectedMember:
    return ConnectedMember(client_id, LanguageCode.JAVA, 479, clock.monotonic_ms(), user)


def test_a_heartbeat_makes_a_member_and_a_goodbye_ends_it() -> None:
    clock = ManualClock()
    producers = Producers[str](clock)
    producers.heartbeat("channel", "g", member(clock, "me"))
    assert {channel: one.client_id for channel, one in producers.members("g").items()} == {"channel": "me"}
    producers.unregister("channel", "g")
    producers.unregister("channel", "g")
    assert producers.members("g") == {}


def test_a_lost_connection_leaves_all_its_groups() -> None:
    clock = ManualClock()
    producers = Producers[str](clock)
    for group in ("g", "h"):
        producers.heartbeat("gone", group, member(clock))
        producers.heartbeat("here", group, member(clock))
    producers.closed("gone")
    assert list(producers.members("g")) == list(producers.members("h")) == ["here"]


def test_who_is_silent_for_too_long_is_told_of() -> None:
    clock = ManualClock()
    producers = Producers[str](clock)
    producers.heartbeat("quiet", "g", member(clock))
    clock.advance(SILENCE_MS_MAX)
    producers.heartbeat("lively", "g", member(clock))
    assert producers.silent() == set()
    clock.advance(1)
    assert producers.silent() == {"quiet"}


def test_a_client_is_found_by_its_id_while_it_is_in_a_group() -> None:
    clock = ManualClock()
    producers = Producers[str](clock)
    assert producers.find("me") is None
    for group in ("g", "h", "h"):
        producers.heartbeat("channel", group, member(clock, "me"))
    producers.unregister("channel", "g")
    assert producers.find("me") == "channel"
    producers.unregister("channel", "h")
    assert producers.find("me") is None


def test_of_several_connections_of_a_client_the_last_is_found() -> None:
    clock = ManualClock()
    producers = Producers[str](clock)
    for channel in ("first", "second", "first"):
        producers.heartbeat(channel, "g", member(clock, "me"))
    assert producers.find("me") == "second"
    producers.closed("second")
    assert producers.find("me") == "first"
    producers.closed("first")
    assert producers.find("me") is None


def test_a_connection_that_takes_another_name_is_not_found_by_the_old_one() -> None:
    clock = ManualClock()
    producers = Producers[str](clock)
    producers.heartbeat("channel", "g", member(clock, "old"))
    producers.heartbeat("channel", "g", member(clock, "new"))
    assert (producers.find("old"), producers.find("new")) == (None, "channel")
    assert [one.client_id for one in producers.members("g").values()] == ["new"]


def test_all_groups_are_returned_and_how_long_their_members_are_silent() -> None:
    clock = ManualClock()
    producers = Producers[str](clock)
    producers.heartbeat("channel", "g", member(clock, "me"))
    clock.advance(5_000)
    (one,) = producers.groups()["g"].values()
    assert (list(producers.groups()), producers.silence_ms(one)) == (["g"], 5_000)


def test_an_id_belongs_to_the_user_who_brings_it_first_until_that_is_long_gone() -> None:
    clock = ManualClock()
    producers = Producers[str](clock)
    producers.heartbeat("anns", "g", member(clock, "me", "ann"))
    producers.heartbeat("bobs", "g", member(clock, "me", "bob"))
    assert list(producers.members("g")) == ["anns", "bobs"] and producers.find("me") == "anns"
    assert producers.belongs("me", "ann") and not producers.belongs("me", "bob")
    producers.closed("bobs")
    assert producers.find("me") == "anns"
    producers.heartbeat("bobs", "g", member(clock, "me", "bob"))
    producers.closed("anns")
    clock.advance(SILENCE_MS_MAX)
    producers.heartbeat("bobs", "g", member(clock, "me", "bob"))
    assert producers.find("me") is None, "it is kept for ann"
    producers.heartbeat("anns", "g", member(clock, "me", "ann"))
    producers.closed("anns")
    clock.advance(SILENCE_MS_MAX + 1)
    producers.heartbeat("bobs", "g", member(clock, "me", "bob"))
    assert producers.find("me") == "bobs"


def test_few_ids_are_kept_for_users_and_none_without_users(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "KEPT_IDS_MAX", 2)
    clock = ManualClock()
    producers = Producers[str](clock)
    for client_id in ("one", "two", "three"):
        producers.heartbeat("anns", "g", member(clock, client_id, "ann"))
    producers.closed("anns")
    for client_id, bobs in (("one", "bobs"), ("three", None)):
        producers.heartbeat("bobs", "g", member(clock, client_id, "bob"))
        assert producers.find(client_id) == bobs
    producers.heartbeat("nobodys", "g", member(clock, "four"))
    producers.closed("nobodys")
    producers.heartbeat("bobs", "g", member(clock, "four", "bob"))
    assert producers.find("four") == "bobs"


def test_a_connection_that_another_user_takes_over_is_that_users_client() -> None:
    clock = ManualClock()
    producers = Producers[str](clock)
    producers.heartbeat("channel", "g", member(clock, "me", "ann"))
    producers.heartbeat("channel", "g", member(clock, "me", "bob"))
    assert producers.find("me") is None and producers.members("g")["channel"].user == "bob"
