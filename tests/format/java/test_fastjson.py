import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.format.java.fastjson import (
    DEPTH_MAX,
    ObjectKey,
    Written,
    dumps,
    loads,
    with_quoted_keys,
)
from cometmq.format.layout import config_dir

# A half of a surrogate pair is no character that UTF-8 could hold.
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LONG = st.integers(-(2**63), 2**63 - 1)
SCALARS = st.booleans() | LONG | TEXT | st.floats(allow_nan=False, allow_infinity=False)
OBJECT_KEYS = st.dictionaries(TEXT, SCALARS, max_size=3).map(lambda members: ObjectKey(members.items()))
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner | st.none()) | st.dictionaries(TEXT | LONG | OBJECT_KEYS, inner),
    max_leaves=20,
)


@pytest.mark.parametrize("store", ["store-clean", "store-killed", "store-killed-recovered"])
def test_a_real_brokers_tables_are_written_back_byte_by_byte(golden: Mapping[str, Path], store: str) -> None:
    tables = sorted(config_dir(golden[store]).glob("*.json*"))
    assert len(tables) >= 10
    for table in tables:
        text = table.read_text()
        assert dumps(loads(text), pretty=True) == text, table.name
        assert dumps(loads(table.read_bytes()), pretty=True) == text, table.name
    for table in config_dir(golden[store]).glob("*etrics*"):
        assert dumps(loads(table.read_text())) == table.read_text(), table.name


def test_a_real_brokers_offsets_are_read_by_queue_id(golden: Mapping[str, Path]) -> None:
    offsets = loads((config_dir(golden["store-clean"]) / "consumerOffset.json").read_bytes())
    assert offsets["offsetTable"]["GoldenA@GoldenGroupPartial"] == {0: 10, 1: 11, 2: 12, 3: 13}


def test_tables_of_older_brokers_are_read_the_same() -> None:
    older = '{\n\t"offsetTable":{\n\t\t"T@g":{0:1,1:1,2:1,3:1\n\t\t},\n\t\t"%RETRY%g@g":{0:1\n\t\t}\n\t}\n}'
    assert loads(older) == {"offsetTable": {"T@g": {0: 1, 1: 1, 2: 1, 3: 1}, "%RETRY%g@g": {0: 1}}}


@given(VALUES, st.booleans())
def test_what_is_written_is_read_back(value: Any, pretty: bool) -> None:
    assert loads(dumps(value, pretty=pretty)) == value
    assert loads(dumps(value, pretty=pretty).encode()) == value


NUMBERED: st.SearchStrategy[Any] = st.recursive(
    st.booleans() | LONG | st.text("ab{},:'0123456789-", max_size=8),
    lambda inner: st.lists(inner) | st.dictionaries(st.text("a{,:-5", max_size=5) | LONG, inner),
    max_leaves=20,
)


@given(NUMBERED)
def test_with_its_keys_quoted_it_is_standard_json(value: Any) -> None:
    text = dumps(value)
    assert json.loads(with_quoted_keys(text.encode())) == json.loads(json.dumps(loads(text)))


def test_text_with_escapes_or_control_characters_is_not_touched() -> None:
    for text in (b'{"a\\"":{1:2}}', b'{"\0":{1:2}}'):
        assert with_quoted_keys(text) == text


@given(TEXT)
def test_strings_are_those_of_standard_json(text: str) -> None:
    assert json.loads(dumps(text)) == text


def test_the_pretty_form_has_a_line_per_member_and_element() -> None:
    value = {"map": {2: 1}, "none": {}, "list": ["a", "b"], "numbers": (21, 54), "gone": None, "on": True}
    assert dumps(value, pretty=True).replace("\t", ">").split("\n") == [
        "{",
        '>"map":{',
        ">>2:1",
        ">},",
        '>"none":{',
        ">>",
        ">},",
        '>"list":[',
        '>>"a",',
        '>>"b"',
        ">],",
        '>"numbers":[21,54],',
        '>"on":true',
        "}",
    ]


def test_the_form_for_the_wire_is_one_line() -> None:
    value = {
        "brokerAddrs": {0: "127.0.0.1:10911"},
        "none": {},
        "list": [None, False, 1.5, "ключ"],
        "gone": None,
    }
    text = '{"brokerAddrs":{0:"127.0.0.1:10911"},"none":{},"list":[null,false,1.5,"ключ"]}'
    assert dumps(value) == text


def test_control_characters_are_escaped_as_fastjson_does() -> None:
    assert dumps('"\\/\b\f\n\r\t\x00\x0b\x1f\x7f') == r'"\"\\/\b\f\n\r\t\u0000\u000b\u001f' + '\x7f"'


def test_numbers_that_json_lacks_become_null() -> None:
    assert dumps([float("nan"), float("inf"), -float("inf")]) == "[null,null,null]"


def test_a_type_that_json_lacks_is_an_error() -> None:
    with pytest.raises(TypeError, match="bytes cannot be written as JSON"):
        dumps({"body": b"x"})


def test_objects_are_keys() -> None:
    text = '{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:5}}'
    queue = {"brokerName": "b", "queueId": 0, "topic": "t"}
    value = loads(text)
    assert value == {"offsetTable": {ObjectKey(queue.items()): 5}}
    assert [dict(key) for key in value["offsetTable"]] == [queue]
    assert dumps(value) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{0:1,-2:3}", {0: 1, -2: 3}),
        ('{"0":1}', {"0": 1}),
        ("{'a':'it\"s',\"b\":\"it's\"}", {"a": 'it"s', "b": "it's"}),
        ("{name:1,$ref_2:2,true:3}", {"name": 1, "$ref_2": 2, "true": 3}),
        ("[1,2,]", [1, 2]),
        ('{"a":1,}', {"a": 1}),
        ('{"a":1} and more', {"a": 1}),
        ('[1]{"a"', [1]),
        ("\ufeff \r\n\t{ 0 : 1 , }", {0: 1}),
        ("{0:-1.5e3,1:2.,2:1E-2}", {0: -1500.0, 1: 2.0, 2: 0.01}),
        ("{0:null,1:true,2:false}", {0: None, 1: True, 2: False}),
        ('{0:"\\b\\t\\n\\f\\r\\v\\"\\\'\\\\\\/\\0\\x41\\u00e9"}', {0: "\b\t\n\f\r\v\"'\\/\0Aé"}),
        ('{0:"\\ud83d\\ude00","raw\t\n":"é"}', {0: "😀", "raw\t\n": "é"}),
        ("{{t:[1,{a:2}]}:3}", {ObjectKey([("t", (1, ObjectKey([("a", 2)])))]): 3}),
    ],
)
def test_the_lenient_reader_takes_what_fastjson_takes(text: str, expected: object) -> None:
    assert loads(text) == expected
    assert loads(text.encode()) == expected
    assert loads(memoryview(text.encode())) == expected


def test_half_a_pair_is_no_character() -> None:
    assert loads('"\\ud83d"') == "\ufffd"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "character 0: expected a value, found 'the end'"),
        ('{"a":}', "character 5: expected a value, found '}'"),
        ('{"a":1', "character 6: expected ',' or '}', found 'the end'"),
        ("[1 2]", "character 3: expected ',' or ']', found '2]'"),
        ("{0 1}", "character 3: expected ':', found '1}'"),
        ("{?:1}", "character 1: expected a name, found"),
        ("{1.5:1}", "character 2: expected ':'"),
        ("word", "character 0: expected a value, found 'word'"),
        ("nullable", "character 0: expected a value, found 'nullable'"),
        ('"abc', 'character 0: expected a string that ends in "'),
        ("'\\q'", "character 0: unknown escape \\q in a string"),
        ("[1e999]", "character 1: 1e999 is too large a number"),
        ("9" * 5000, "character 0: number has more digits than Python converts"),
        ("[,]", "character 1: expected a value"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(text: str, message: str) -> None:
    with pytest.raises(FormatError) as error:
        loads(text)
    assert message in str(error.value)


def test_bytes_that_are_not_utf8_are_an_error() -> None:
    with pytest.raises(FormatError, match="not UTF-8 at byte 1"):
        loads(b'"\xff"')


@pytest.mark.parametrize("opening", ["[", "{0:", '{"a":', "{"])
def test_nesting_has_a_limit(opening: str) -> None:
    with pytest.raises(FormatError, match=f"deeper than {DEPTH_MAX} levels"):
        loads(opening * 100_000)


def test_standard_json_has_the_same_limit() -> None:
    with pytest.raises(FormatError, match=f"deeper than {DEPTH_MAX} levels"):
        loads("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1))
    with pytest.raises(FormatError, match=f"deeper than {DEPTH_MAX} levels"):
        loads('{"a":' * (DEPTH_MAX + 1) + "[]" + "}" * (DEPTH_MAX + 1))
    assert loads("[" * DEPTH_MAX + "]" * DEPTH_MAX) is not None


def test_nesting_up_to_the_limit_is_read() -> None:
    value = loads("[" * (DEPTH_MAX - 1) + "{0:1}" + "]" * (DEPTH_MAX - 1))
    assert dumps(value).count("[") == DEPTH_MAX - 1


@given(st.text(st.sampled_from("{}[]:,\"'\\0-1.eEaufx \t\n")) | st.text())
def test_any_text_is_read_or_a_format_error(text: str) -> None:
    with suppress(FormatError):
        loads(text)


@given(VALUES)
def test_the_pretty_form_is_the_other_with_lines(value: Any) -> None:
    def without_lines(text: str) -> str:
        return text.replace("\n", "").replace("\t", "")  # strings hold only their escapes

    assert without_lines(dumps(value, pretty=True)) == dumps(value)
    assert without_lines(dumps([Written(dumps(value, pretty=True, level=1))])) == dumps([value])


def test_what_is_written_already_is_put_as_it_is() -> None:
    entry = {"a": [1, 2], "b": {}}
    written = Written(dumps(entry, pretty=True, level=2))
    assert dumps({"t": {"x": written}}, pretty=True) == dumps({"t": {"x": entry}}, pretty=True)
    assert dumps([Written("{1:2}"), "{1:2}"]) == '[{1:2},"{1:2}"]'
