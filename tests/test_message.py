"""A message checks the types of its parts when it is made."""

from typing import Any

import pytest
from msgspec.structs import replace

from cometmq.errors import IllegalField, MessageIllegal
from cometmq.message import Message


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"topic": None}, r"topic None \(NoneType\): give a str"),
        ({"topic": b"T"}, r"topic b'T' \(bytes\): give a str"),
        ({"body": None}, r"body None \(NoneType\): give bytes"),
        ({"body": "text"}, r"body 'text' \(str\): give bytes, such as text.encode\(\)"),
        ({"tags": 7}, r"tags 7 \(int\): give a str, or None"),
        ({"tags": ("a",)}, r"tags \('a',\) \(tuple\): give a str, or None"),
        ({"keys": (42,)}, r"keys \(42,\) \(tuple\): give strs as a tuple, such as \('42',\)"),
        ({"keys": "42"}, r"keys '42': give them as a tuple, \('42',\)"),
        ({"properties": [("a", "b")]}, r"properties \[\('a', 'b'\)\] \(list\): give a dict of strs"),
        ({"properties": {"a": 1}}, r"property 'a' 1 \(int\): give a str for name and value"),
        ({"properties": {1: "a"}}, r"property 1 'a' \(str\): give a str for name and value"),
        ({"flag": "1"}, r"flag '1' \(str\): give an int"),
        ({"delay_level": 1.5}, r"delay_level 1.5 \(float\): give an int"),
        ({"sharding_key": 7}, r"sharding_key 7 \(int\): give a str, or None"),
        ({"delay_ms": 1.5}, r"delay_ms 1.5 \(float\): give an int"),
        ({"deliver_time": "now"}, r"deliver_time 'now' \(str\): give an int"),
    ],
)
def test_a_part_of_another_type_is_refused_where_the_message_is_made(
    changes: dict[str, Any], text: str
) -> None:
    sound = Message("T", b"x", tags="paid")
    given: dict[str, Any] = {"topic": "T", "body": b"x"}
    with pytest.raises(IllegalField, match=text) as caught:
        Message(**given | changes)
    assert issubclass(type(caught.value), TypeError) and issubclass(type(caught.value), MessageIllegal)
    with pytest.raises(IllegalField, match=text):
        replace(sound, **changes)


def test_bytes_of_any_kind_and_keys_in_any_collection_are_taken() -> None:
    bodies: list[Any] = [b"x", bytearray(b"x"), memoryview(b"x")]
    assert [Message("T", body).body for body in bodies] == bodies
    collections: list[Any] = [("a", "b"), ["a", "b"], {"a": 1, "b": 2}.keys()]
    assert [list(Message("T", b"x", keys=keys).keys) for keys in collections] == [["a", "b"]] * 3


def test_most_messages_have_a_body_only() -> None:
    assert Message("T", b"x").has_body_only and Message("T", b"x", tags="").has_body_only
    others: list[dict[str, Any]] = [
        *({"tags": "a"}, {"keys": ("a",)}, {"properties": {"a": "b"}}, {"flag": 1}, {"delay_level": 1}),
        *({"sharding_key": ""}, {"delay_ms": 1}, {"deliver_time": 1}),
    ]
    assert not any(Message("T", b"x", **other).has_body_only for other in others)
