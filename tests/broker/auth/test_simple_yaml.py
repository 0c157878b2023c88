import json
import re
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.accounts import SAMPLE

from cometmq.broker.auth.simple_yaml import DEPTH_MAX, loads
from cometmq.errors import FormatError

SAMPLE_READ = {
    "globalWhiteRemoteAddresses": ["10.10.103.*", "192.168.0.{1,2}"],
    "accounts": [
        {
            "accessKey": "RocketMQ",
            "secretKey": "12345678",
            "whiteRemoteAddress": None,
            "admin": "false",
            "defaultTopicPerm": "DENY",
            "topicPerms": ["topicA=DENY", "topicB=PUB|SUB"],
            "groupPerms": ["groupA=DENY"],
        },
        {"accessKey": "rocketmq2", "secretKey": 'a # b: "c"', "whiteRemoteAddress": "*", "admin": "true"},
    ],
}


def test_reads_the_file_that_rocketmq_is_delivered_with() -> None:
    assert loads(SAMPLE) == SAMPLE_READ


def test_reads_what_a_broker_writes_on_several_lines_in_brackets() -> None:
    text = """\
accounts:
- accessKey: RocketMQ
  topicPerms: [topicA=DENY,
    'topicB=PUB|SUB',  # ]
    topicC=SUB]
dataVersion:
- {counter: 1, timestamp: 1599000000000}
empty: []
"""
    assert loads(text) == {
        "accounts": [
            {"accessKey": "RocketMQ", "topicPerms": ["topicA=DENY", "topicB=PUB|SUB", "topicC=SUB"]}
        ],
        "dataVersion": [{"counter": "1", "timestamp": "1599000000000"}],
        "empty": [],
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing\n", None),
        ("---\na: b", {"a": "b"}),
        ("a: it's # comment's", {"a": "it's"}),
        ("a: x#y", {"a": "x#y"}),
        ("a: null\nb: ~\nc:", {"a": None, "b": None, "c": None}),
        ("a: 'it''s'", {"a": "it's"}),
        (r'a: "\\x\"\n\x41"', {"a": '\\x"\nA'}),
        ("null: b", {"null": "b"}),
        ("- a\n-\n  - b\n- c: d\n  e: f", ["a", ["b"], {"c": "d", "e": "f"}]),
        (
            "a: yes\nb: 010\nc: 1.5e3\nd: 2001-12-14",
            {"a": "yes", "b": "010", "c": "1.5e3", "d": "2001-12-14"},
        ),
    ],
)
def test_a_scalar_is_a_text_or_nothing(text: str, value: Any) -> None:
    assert loads(text) == value


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a: b\na: c", "line 2: a is there twice"),
        ("a: {b: c, b: d}", "line 1: a name is there twice"),
        ("a: b\n c: d", "line 2: mapping values are not allowed here: put texts with special characters in"),
        ("a:\n\t- b", r"line 2: found character '\t' that cannot start any token"),
        ("a: %b", "line 1: found character '%' that cannot start any token"),
        ("a: *b", "line 1: put the text in quotes: &, * and ! before it have a meaning in YAML"),
        ("a: !!python/object/apply:os.system [x]", "line 1: put the text in quotes"),
        ("a: &b c", "line 1: put the text in quotes"),
        ("&a b: c", "line 1: put the text in quotes"),
        ("a: b\nc: |\n  b", "line 2: put the text in quotes: block texts are not read here"),
        ("a: b: c", "line 1: mapping values are not allowed here"),
        ("a: 'b", "line 1: found unexpected end of stream"),
        ("a: 'b' c", "line 1: expected <block end>"),
        (r'a: "\q"', "line 1: found unknown escape character"),
        ("x: y\na: [b,\nc", "line 3: expected ',' or ']'"),
        ("a: [b] c", "line 1: expected <block end>"),
        ("[a]: b", "line 1: expected `name: value`"),
        ("a: b\n---\nc: d", "line 2: a second document begins here"),
        ("a: b\n- c", "line 2: expected <block end>"),
        ("a: b\nc: \0", "line 2: special characters are not allowed"),
        ("- " * (DEPTH_MAX + 2) + "a", f"nested deeper than {DEPTH_MAX} levels"),
        ("a: " + "[" * (DEPTH_MAX + 2) + "]" * (DEPTH_MAX + 2), f"nested deeper than {DEPTH_MAX} levels"),
    ],
)
def test_what_is_not_read_is_refused_with_its_line(text: str, reason: str) -> None:
    with pytest.raises(FormatError, match=re.escape(reason)):
        loads(text)


@pytest.mark.parametrize(
    "text",
    [
        "!secret!b",
        "!secret",
        "&secret b",
        "*secret",
        "%secret",
        "'secret",
        "[secret",
        "secret: b: c",
        "|secret",
    ],
)
def test_an_error_shows_nothing_of_a_password(text: str) -> None:
    with pytest.raises(FormatError) as raised:
        loads(f"secretKey: {text}")
    assert "secret" not in str(raised.value)


texts = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=8)
names = st.from_regex(r"[A-Za-z_]\w{0,8}", fullmatch=True).filter(str.isascii)
values = st.recursive(
    texts | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)


@given(values.filter(lambda value: value is not None))
def test_what_is_written_in_quotes_and_brackets_is_read(value: Any) -> None:
    assert loads(f"a: {flow(value)}") == {"a": value}
    assert loads(f"a:\n{block(value, 2)}") == {"a": value}


@given(st.text("ab:-#[]{},'\" \n\t\\*&|%", max_size=40))
def test_any_text_is_read_or_refused_and_nothing_worse(text: str) -> None:
    with suppress(FormatError):
        loads(text)


def flow(value: Any) -> str:
    """Write a value in brackets, its texts in single quotes."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {flow(member)}' for name, member in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    quoted = "" if value is None else value.replace("'", "''")
    return "~" if value is None else f"'{quoted}'"


def block(value: Any, indent: int) -> str:
    """Write a value by indentation, its texts in double quotes."""
    blanks = " " * indent
    if isinstance(value, dict) and value:
        return "\n".join(f"{blanks}{name}:\n{block(member, indent + 1)}" for name, member in value.items())
    if isinstance(value, list) and value:
        return "\n".join(f"{blanks}-\n{block(item, indent + 1)}" for item in value)
    if isinstance(value, str):
        return blanks + json.dumps(value)
    return blanks + ("~" if value is None else "[]" if isinstance(value, list) else "{}")
