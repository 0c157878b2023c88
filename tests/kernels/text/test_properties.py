import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.format import properties

pytestmark = pytest.mark.usefixtures("compiled")

pieces = st.sampled_from([b"\x01", b"\x02", b"a", b"TAGS", b"KEYS", b"UNIQ_KEY", b" ", b"k1 k2", b"\0"])
strings = st.lists(pieces, max_size=30).map(b"".join)


@given(st.lists(strings, max_size=3))
def test_finds_the_properties_that_the_format_finds(strings: list[bytes]) -> None:
    from cometmq.kernels.text.properties import find_known, split_keys, split_properties  # noqa: PLC0415  numba

    data = b"".join(strings)
    buffer = np.frombuffer(data, np.uint8)
    lengths = np.array([len(each) for each in strings], np.int32)
    positions = np.cumsum(lengths, dtype=np.int64) - lengths

    offsets = np.empty(len(strings) + 1, np.int32)
    places = split_properties(buffer, positions, lengths, offsets)
    found = [
        (data[name:name_end].decode(), data[value:value_end].decode())
        for name, name_end, value, value_end in zip(*places, strict=True)
    ]
    by_name = [properties.decode(each) for each in strings]
    assert [dict(found[a:b]) for a, b in itertools.pairwise(offsets)] == by_name

    known = np.empty((6, len(strings)), np.int64)
    find_known(buffer, positions, lengths, *known)
    for name, begins, ends in zip(("UNIQ_KEY", "TAGS", "KEYS"), known[::2], known[1::2], strict=True):
        values = [data[begin:end].decode() for begin, end in zip(begins, ends, strict=True)]
        assert values == [each.get(name, "") for each in by_name]

    begins, ends = split_keys(buffer, known[4], known[5], offsets)
    keys = [data[begin:end].decode() for begin, end in zip(begins, ends, strict=True)]
    assert [keys[a:b] for a, b in itertools.pairwise(offsets)] == [
        properties.split_keys(each.get("KEYS", "")) for each in by_name
    ]
