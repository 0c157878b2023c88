from itertools import product

import numpy as np
import pytest

from cometmq.format.delay_level import DelayLevels
from cometmq.format.host import pack_host
from cometmq.format.java.java_hash import java_hash
from cometmq.format.record import Record, encode
from cometmq.kernels.ops import Ops

HOST = pack_host("127.0.0.1", 10911)
RECORD = Record("TopicA", b"", b"", 0, 0, 0, 0, 0, 1, HOST, 1_000_000, HOST)

# Each class of bytes that UTF-8 tells apart, by its least and its greatest.
EDGES = [0x00, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, 0xC2, 0xDF, 0xE0, 0xE1, 0xEC, 0xED, 0xEE]
EDGES += [0xEF, 0xF0, 0xF1, 0xF3, 0xF4, 0xF5, 0xFF]


def hashes(ops: Ops, texts: list[bytes]) -> list[int]:
    """Return the hashes of texts, each the tags of a record."""
    data = b"".join(encode(RECORD._replace(properties=b"TAGS\1%b\2" % text)) for text in texts)
    scan = ops.scan(data, base_offset=None)
    found: list[int] = ops.dispatch(data, scan, DelayLevels.parse()).tags_code.tolist()
    return found


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("TagA", 2598919), ("TopicA#k1", -1903240649), ("polygenelubricants", -(2**31))],
)
def test_gives_the_hash_that_java_gives(ops: Ops, text: str, expected: int) -> None:
    assert hashes(ops, [text.encode()]) == [expected]


@pytest.mark.parametrize("text", ["标签", "ключ", "é", "🙂", "a\U0010ffffz", "\ud7ff\ue000\uffff"])
def test_hashes_the_utf_16_units_of_a_text(ops: Ops, text: str) -> None:
    units = np.frombuffer(text.encode("utf-16-be"), ">u2").tolist()
    value = 0
    for unit in units:
        value = (31 * value + unit) % 2**32
    assert hashes(ops, [text.encode()]) == [(value + 2**31) % 2**32 - 2**31]


@pytest.mark.parametrize("first", EDGES)
def test_reads_malformed_text_as_python_does(ops: Ops, first: int) -> None:
    texts = [bytes((first, *rest)) for size in (0, 1, 2) for rest in product(EDGES, repeat=size)]
    texts += [bytes((first, a, 0x80, b)) for a, b in product(EDGES, repeat=2)]
    assert hashes(ops, texts) == [java_hash(text.decode("utf-8", "replace")) for text in texts]
