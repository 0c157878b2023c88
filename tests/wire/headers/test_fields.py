from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.errors import HeaderError
from cometmq.wire.codes import RequestCode
from cometmq.wire.headers.fields import Header, Int, Long, NoFields, fields, parse, type_name
from cometmq.wire.requests import REQUESTS

ALL_HEADERS = sorted(
    {header for request in REQUESTS.values() for header in (request.header, request.answer)},
    key=lambda header: header.__name__,
)


class Sample(Header):
    topic: str
    queue_id: Int
    store_time: Long | None = msgspec.field(default=None, name="storeTimestamp")
    batch: bool = False


class OneField(Header):
    offset: Long


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
values = {
    "a text": texts.filter(bool),
    "a 32-bit integer": st.integers(-(2**31), 2**31 - 1),
    "a 64-bit integer": st.integers(-(2**63), 2**63 - 1),
    "a boolean": st.booleans(),
}


def headers(header_type: type[Header]) -> st.SearchStrategy[Header]:
    members: dict[str, st.SearchStrategy[Any]] = {
        known.name: values[type_name(known.type)] for known in msgspec.structs.fields(header_type)
    }
    return st.builds(header_type, **members)


def test_reads_texts_as_numbers_and_booleans_under_the_names_of_the_wire() -> None:
    read = parse(Sample, {"topic": "T", "queueId": "-1", "storeTimestamp": "5", "batch": "true"})
    assert read == Sample("T", -1, 5, True)


def test_writes_texts_and_leaves_none_out() -> None:
    assert fields(Sample("T", 3)) == {"topic": "T", "queueId": "3", "batch": "false"}
    assert fields(OneField(9)) == {"offset": "9"}
    assert fields(NoFields()) == {}


def test_a_member_of_an_enumeration_is_written_as_its_number() -> None:
    assert fields(Sample("T", RequestCode.SEND_MESSAGE))["queueId"] == "10"


def test_unknown_fields_are_ignored() -> None:
    assert parse(NoFields, {"nsd": "false", "x": "y"}) == NoFields()


@pytest.mark.parametrize("text", ["true", "True", "TRUE", "1"])
def test_a_boolean_may_be_spelt_in_several_ways(text: str) -> None:
    assert parse(Sample, {"topic": "T", "queueId": "1", "batch": text}).batch is True


@pytest.mark.parametrize(
    ("change", "field", "reason"),
    [
        ({"topic": None}, "topic", "missing, expected a text"),
        ({"queueId": None}, "queueId", "missing, expected a 32-bit integer"),
        ({"queueId": "x"}, "queueId", "'x' is not a 32-bit integer"),
        ({"queueId": ""}, "queueId", "'' is not a 32-bit integer"),
        ({"queueId": "2147483648"}, "queueId", "'2147483648' is not a 32-bit integer"),
        ({"queueId": "9" * 5000}, "queueId", f"'{'9' * 60}…' is not a 32-bit integer"),
        ({"storeTimestamp": "9223372036854775808"}, "storeTimestamp", "is not a 64-bit integer"),
        ({"batch": "maybe"}, "batch", "'maybe' is not a boolean"),
        ({"queueId": "\ud800"}, "queueId", "is not a 32-bit integer"),
    ],
)
def test_an_error_names_the_field_the_value_and_what_was_expected(
    change: dict[str, str | None], field: str, reason: str
) -> None:
    changed = {"topic": "T", "queueId": "1"} | change
    given_fields = {name: value for name, value in changed.items() if value is not None}
    with pytest.raises(HeaderError) as raised:
        parse(Sample, given_fields)
    assert raised.value.field == field
    assert str(raised.value).startswith(f"header field {field}: ") and reason in str(raised.value)


@pytest.mark.parametrize("header_type", ALL_HEADERS)
def test_every_header_comes_back_as_it_went(header_type: type[Header]) -> None:
    @settings(max_examples=15)
    @given(headers(header_type))
    def comes_back(header: Header) -> None:
        written = fields(header)
        assert all(type(value) is str for value in written.values())
        assert parse(header_type, written) == header

    comes_back()


@pytest.mark.parametrize("header_type", ALL_HEADERS)
def test_every_header_refuses_nonsense_with_a_header_error(header_type: type[Header]) -> None:
    known = msgspec.structs.fields(header_type)
    usual = {field.encode_name: "1" for field in known}
    for field in known:
        name, expected = field.encode_name, type_name(field.type)
        if field.required:
            without = {other: value for other, value in usual.items() if other != name}
            with pytest.raises(HeaderError, match=f"{name}: missing"):
                parse(header_type, without)
        if expected != "a text":
            for nonsense in ("", "x", "9" * 30, "1" * 100_000, "1.5", "{}", "\0"):
                with pytest.raises(HeaderError, match=f"{name}: .* is not {expected}"):
                    parse(header_type, usual | {name: nonsense})
