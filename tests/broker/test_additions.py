import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.additions import Additions, parse
from cometmq.errors import MessageIllegal
from cometmq.format import properties

ADDITIONS = Additions(region="R", trace_on=True, cluster="C", make_unique_key=lambda: "made")
ADDED = {"MSG_REGION": "R", "TRACE_ON": "true", "CLUSTER": "C"}


def sent(**named: str) -> str:
    return properties.encode(named).decode()


def test_the_broker_adds_behind_what_the_producer_wrote() -> None:
    text = sent(UNIQ_KEY="u", TAGS="TagA", WAIT="true")
    completed = ADDITIONS.complete(text)
    assert completed.data.startswith(text.encode())
    assert properties.decode(completed.data) == properties.decode(text.encode()) | ADDED
    assert (completed.tags, completed.unique_key, completed.wait) == ("TagA", "u", True)


@pytest.mark.parametrize("text", ["", sent(TAGS="TagA"), "UNIQ_KEY\x01\x02"])
def test_a_message_without_a_unique_key_gets_one(text: str) -> None:
    completed = ADDITIONS.complete(text)
    assert completed.unique_key == "made"
    assert properties.decode(completed.data)["UNIQ_KEY"] == "made"


def test_what_another_broker_had_added_is_replaced() -> None:
    completed = ADDITIONS.complete(sent(UNIQ_KEY="u", CLUSTER="other", POP_CK="0 1 2"))
    assert completed.data == properties.encode({"UNIQ_KEY": "u"} | ADDED)


def test_a_string_that_lacks_its_end_is_ended() -> None:
    assert properties.decode(ADDITIONS.complete("UNIQ_KEY\x01u").data) == {"UNIQ_KEY": "u"} | ADDED


def test_wait_false_wants_no_wait() -> None:
    assert not ADDITIONS.complete(sent(WAIT="false")).wait


def test_a_member_of_a_batch_is_stored_as_it_was_sent() -> None:
    data = sent(UNIQ_KEY="u", TAGS="TagA").encode()
    completed = ADDITIONS.complete_member(data)
    assert (completed.data, completed.tags, completed.unique_key) == (data, "TagA", "u")


def test_properties_that_get_too_long_are_refused_with_the_limit() -> None:
    with pytest.raises(MessageIllegal, match="limit is 32767"):
        ADDITIONS.complete(sent(UNIQ_KEY="u", a="x" * properties.MAX_LENGTH))


@given(st.text(st.sampled_from("ab\x01\x02"), max_size=12))
def test_reading_fast_is_reading_right(text: str) -> None:
    read = {name: value for name, value in parse(text).items() if name and value}
    assert read == properties.decode(text.encode())


@given(st.text(st.sampled_from("abZ\x01\x02"), max_size=12))
def test_nothing_that_was_sent_is_lost(text: str) -> None:
    stored = properties.decode(ADDITIONS.complete(text).data)
    assert stored == {"UNIQ_KEY": "made"} | properties.decode(text.encode()) | ADDED
