import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.requests.additions import Additions, parse
from cometmq.errors import MessageIllegal
from cometmq.format import properties

ADDITIONS = Additions(region="R", trace_on=True, cluster="C", make_unique_key=lambda: "made")
ADDED = {"MSG_REGION": "R", "TRACE_ON": "true", "CLUSTER": "C"}


def sent(**named: str) -> str:
    return properties.encode(named).decode()


def test_the_broker_adds_behind_what_the_producer_wrote() -> None:
    text = sent(UNIQ_KEY="u", TAGS="TagA", WAIT="true")
    data, named = ADDITIONS.complete(text)
    assert data.startswith(text.encode())
    assert properties.decode(data) == properties.decode(text.encode()) | ADDED
    assert named == {"UNIQ_KEY": "u", "TAGS": "TagA", "WAIT": "true"}


@pytest.mark.parametrize("text", ["", sent(TAGS="TagA"), "UNIQ_KEY\x01\x02"])
def test_a_message_without_a_unique_key_gets_one(text: str) -> None:
    data, named = ADDITIONS.complete(text)
    assert named["UNIQ_KEY"] == properties.decode(data)["UNIQ_KEY"] == "made"


def test_what_another_broker_had_added_is_replaced() -> None:
    data, _ = ADDITIONS.complete(sent(UNIQ_KEY="u", CLUSTER="other", POP_CK="0 1 2"))
    assert data == properties.encode({"UNIQ_KEY": "u"} | ADDED)


def test_a_string_that_lacks_its_end_is_ended() -> None:
    data, _ = ADDITIONS.complete("UNIQ_KEY\x01u")
    assert properties.decode(data) == {"UNIQ_KEY": "u"} | ADDED


@pytest.mark.parametrize("given", [{"UNIQ_KEY": "u"}, {}])
def test_properties_that_get_too_long_are_refused_with_the_limit(given: dict[str, str]) -> None:
    room = properties.MAX_LENGTH - len(sent(**given, a=""))
    with pytest.raises(MessageIllegal, match="limit is 32767"):
        ADDITIONS.complete(sent(**given, a="x" * room))


def test_properties_that_could_never_be_stored_are_not_read() -> None:
    with pytest.raises(MessageIllegal, match="the properties have 4000000 characters: the limit is 32767"):
        parse("a\x01b\x02" * 1_000_000)


@given(st.text(st.sampled_from("ab\x01\x02"), max_size=12))
def test_reading_fast_is_reading_right(text: str) -> None:
    assert parse(text) == properties.decode(text.encode())


@given(st.text(st.sampled_from("abZ\x01\x02"), max_size=12))
def test_nothing_that_was_sent_is_lost(text: str) -> None:
    data, _ = ADDITIONS.complete(text)
    assert properties.decode(data) == {"UNIQ_KEY": "made"} | properties.decode(text.encode()) | ADDED
