import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.wire.recall_handle import RecallHandle, parse

TEXT = "djEgT3JkZXJzIGJyb2tlci1hIDE3OTUyNDI0OTAwMDEgN0YwMDAwMDEwMDAxQzA="
HANDLE = RecallHandle("Orders", "broker-a", "1795242490001", "7F0000010001C0")


def handle_of(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


words = st.text(st.characters(codec="utf-8", exclude_characters=" "), min_size=1)


@given(st.builds(RecallHandle, words, words, words, words))
def test_a_handle_comes_back_as_it_went_with_its_padding_and_without(handle: RecallHandle) -> None:
    text = str(handle)
    assert parse(text) == parse(text.rstrip("=")) == handle


def test_it_is_what_rocketmq_makes() -> None:
    assert str(HANDLE) == TEXT
    assert parse(TEXT) == HANDLE


def test_it_has_no_characters_that_mean_something_in_a_url() -> None:
    text = str(RecallHandle("ÿÿÿ>", "???", "1", "ÿ"))
    assert {"-", "_"} & {*text} and not {"+", "/"} & {*text}


@given(st.text())
def test_what_is_no_handle_is_refused_by_an_error_that_shows_it(text: str) -> None:
    with pytest.raises(
        FormatError, match="is not a recall handle: give the one from the response to the send"
    ):
        parse(text[:30])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "=",
        TEXT.rstrip("=") + "==",
        TEXT[:-3],
        TEXT + "\n",
        " " + TEXT,
        TEXT.replace("E", "+", 1),
        handle_of("v1 Orders broker-a 17"),
        handle_of("v1 Orders broker-a 17 "),
        handle_of("v2 Orders broker-a 17 ID"),
        handle_of("Orders broker-a 17 ID v1"),
    ],
)
def test_what_java_refuses_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        parse(text)


def test_what_java_passes_over_is_passed_over() -> None:
    assert parse(handle_of("v1 Orders broker-a 1795242490001 7F0000010001C0 and more")) == HANDLE
    assert parse(handle_of("v1  broker-a x ID ")) == RecallHandle("", "broker-a", "x", "ID")
