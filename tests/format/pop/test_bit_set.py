import base64

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cometmq.errors import FormatError
from cometmq.format.pop import bit_set
from cometmq.format.pop.names import POP_COUNT_MAX


def test_the_sets_of_the_java_client_are_decoded() -> None:
    assert bit_set.encode([0, 2]) == "BQ=="
    assert bit_set.decode("BQ==") == (0, 2)
    assert bit_set.encode([]) == "" and bit_set.decode("") == ()
    assert bit_set.decode("AAE=") == (8,)


@given(st.sets(st.integers(0, 65_535), max_size=POP_COUNT_MAX))
@example({65_535})
def test_each_set_is_decoded_in_ascending_order(numbers: set[int]) -> None:
    assert bit_set.decode(bit_set.encode(numbers)) == tuple(sorted(numbers))


@pytest.mark.parametrize("text", ["BQ=", "B Q==", "BQ==é", "*"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(FormatError, match="is not a bit set in Base64"):
        bit_set.decode(text)


def test_a_set_beyond_the_limit_is_refused_before_it_is_decoded() -> None:
    with pytest.raises(FormatError, match="a bit set of 40000 characters: at most 10924"):
        bit_set.decode("A" * 40_000)
    with pytest.raises(FormatError, match="a bit set of 8193 bytes: at most 8192"):
        bit_set.decode(bit_set.encode([65_536]))


def test_a_set_of_more_messages_than_a_pop_has_is_refused_before_they_are_listed() -> None:
    many = base64.b64encode(b"\xff" * 8_000).decode()
    with pytest.raises(FormatError, match="has 64000 numbers: at most 32 are possible"):
        bit_set.decode(many)
    assert len(bit_set.decode(bit_set.encode(range(100, 132)))) == 32
    with pytest.raises(FormatError, match="has 33 numbers"):
        bit_set.decode(bit_set.encode(range(33)))
