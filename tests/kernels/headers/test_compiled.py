"""Which fields a header may have. The tests of pulls and sends read whole headers and frames."""

import pytest

from cometmq.kernels.headers.compiled import readers_of
from cometmq.kernels.headers.places import FIELD_COUNT


def test_names_must_be_told_apart_by_length_and_first_letter() -> None:
    readers_of((b"topic", b"key"))
    with pytest.raises(AssertionError):
        readers_of((b"topic", b"tokyo"))


def test_there_are_places_for_so_many_fields() -> None:
    with pytest.raises(AssertionError):
        readers_of(tuple(b"a" * size for size in range(1, FIELD_COUNT + 2)))
