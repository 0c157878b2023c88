from enum import StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import field

from cometmq.errors import FormatError
from cometmq.format.java.fastjson import dumps
from cometmq.message import MessageQueue
from cometmq.wire.bodies.body import Body, decode, encode, from_plain, to_plain


class Color(StrEnum):
    RED = "RED"


class Inner(Body):
    name: str


class Sample(Body):
    zone_name: str | None = None
    count: int = 0
    inner: Inner | None = None
    color: Color = Color.RED
    tags: set[str] = field(default_factory=set)
    by_id: dict[int, str] = field(default_factory=dict)
    offsets: dict[MessageQueue, int] = field(default_factory=dict, name="offsetTable")
    queue: MessageQueue | None = None


QUEUE = MessageQueue("T", "b", 3)
FULL = Sample("z", 5, Inner("n"), Color.RED, {"B", "A"}, {0: "zero", 1: "one"}, {QUEUE: 7}, QUEUE)
WRITTEN = (
    b'{"byId":{0:"zero",1:"one"},"color":"RED","count":5,"inner":{"name":"n"},'
    b'"offsetTable":{{"brokerName":"b","queueId":3,"topic":"T"}:7},'
    b'"queue":{"brokerName":"b","queueId":3,"topic":"T"},"tags":["A","B"],"zoneName":"z"}'
)


def test_members_are_written_in_the_order_of_their_names_as_fastjson_does() -> None:
    assert encode(FULL) == WRITTEN


def test_what_was_written_is_read() -> None:
    assert decode(Sample, WRITTEN) == FULL
    assert from_plain(Sample, to_plain(FULL)) == FULL


def test_none_is_left_out() -> None:
    assert encode(Sample()) == b'{"byId":{},"color":"RED","count":0,"offsetTable":{},"tags":[]}'


def test_standard_json_has_quotes_around_number_keys() -> None:
    written = encode(Sample(by_id={0: "zero"}), standard=True)
    assert b'"byId":{"0":"zero"}' in written
    assert decode(Sample, written) == Sample(by_id={0: "zero"})


class Wide(Body):
    """A body with a member of each kind that there can be."""

    text: str = ""
    rate: float = 0.0
    is_on: bool = False
    missing: int | None = None
    lines: list[str | None] = field(default_factory=list)
    pair: tuple[int, ...] = ()
    colors: dict[Color, list[Inner]] = field(default_factory=dict)
    by_name: dict[str, dict[int, bool | None]] = field(default_factory=dict)
    by_queue: dict[MessageQueue, Inner] = field(default_factory=dict)
    sample: Sample | None = None


class Empty(Body):
    """A body without members."""


TEXTS = st.text(max_size=5)
COUNTS = st.integers(-(2**63), 2**63 - 1)
QUEUES = st.builds(MessageQueue, TEXTS, TEXTS, COUNTS)
INNERS = st.builds(Inner, TEXTS)
SAMPLES = st.builds(
    Sample,
    st.none() | TEXTS,
    COUNTS,
    st.none() | INNERS,
    st.sampled_from(Color),
    st.sets(TEXTS, max_size=3),
    st.dictionaries(COUNTS, TEXTS, max_size=3),
    st.dictionaries(QUEUES, COUNTS, max_size=3),
    st.none() | QUEUES,
)
WIDES = st.builds(
    Wide,
    TEXTS,
    st.floats(),
    st.booleans(),
    st.none() | COUNTS,
    st.lists(st.none() | TEXTS, max_size=3),
    st.lists(COUNTS, max_size=3).map(tuple),
    st.dictionaries(st.sampled_from(Color), st.lists(INNERS, max_size=2)),
    st.dictionaries(TEXTS, st.dictionaries(COUNTS, st.none() | st.booleans(), max_size=2), max_size=2),
    st.dictionaries(QUEUES, INNERS, max_size=2),
    st.none() | SAMPLES,
)


@given(WIDES | SAMPLES | st.just(Empty()), st.booleans())
def test_a_body_is_written_as_its_dicts_and_lists_are(body: Body, standard: bool) -> None:
    assert encode(body, standard=standard) == dumps(to_plain(body, standard=standard)).encode()


@pytest.mark.parametrize(
    "data",
    [
        b'{"count":"5"}',
        b"{'count':5}",
        b"{count:5}",
        b'{"count":5} trailing',
        b'{"count":5,"tags":null,"zoneName":null,"unknown":{"a":[1,null]}}',
        b'{"count":5,"byId":{},}',
        bytearray(b'{"count":5}'),
        memoryview(b'{"count":5}'),
    ],
)
def test_reads_what_fastjson_reads(data: bytes) -> None:
    assert decode(Sample, data) == Sample(count=5)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "JSON at character 0"),
        (b"[]", "body is not Sample: Expected `object`, got `array`"),
        (b'{"count":"x"}', r"body is not Sample: Expected `int`, got `str` - at `\$.count`"),
        (b'{"inner":{}}', r"missing required field `name` - at `\$.inner`"),
        (b'{"color":"BLUE"}', "Invalid enum value 'BLUE'"),
        (b"\xff", "not UTF-8"),
        (b'{"a":' * 100_000, "nested deeper"),
        (b'{"offsetTable":{{"a":{"b":[1]}}:1}}', "body is not Sample"),
        (b'{"offsetTable":{{"topic":["T"],"brokerName":"b","queueId":3}:1}}', "body is not Sample"),
        (b'{"queue":{"topic":"T","brokerName":"b","queueId":"x"}}', "Expected `int`, got `str`"),
    ],
)
def test_what_is_no_such_body_is_refused_with_its_place(data: bytes, reason: str) -> None:
    with pytest.raises(FormatError, match=reason):
        decode(Sample, data)


def test_deep_but_whole_json_is_refused() -> None:
    with pytest.raises(FormatError):
        decode(Sample, b'{"count":"x","a":' + b"[" * 900 + b"]" * 900 + b"}")


def test_a_long_body_is_read_only_as_standard_json() -> None:
    assert decode(Sample, b'{"count":5, "zoneName":"z"}', lenient_max=10).count == 5
    with pytest.raises(FormatError, match="not standard JSON of Sample; otherwise at most 10 bytes"):
        decode(Sample, b"{'count':5, 'zoneName':'z'}", lenient_max=10)
    with pytest.raises(FormatError, match="not standard JSON; otherwise at most 10 bytes"):
        decode(Sample, b"{'count':5, 'zoneName':'z'}", nonstandard_max=10)


@given(st.binary(max_size=60) | st.text("{}[]\":,'0123456789ab \\", max_size=60).map(str.encode))
def test_garbage_is_refused_and_nothing_worse(data: bytes) -> None:
    try:
        decode(Sample, data)
    except FormatError:
        return
