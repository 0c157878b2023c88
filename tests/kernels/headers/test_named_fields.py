"""Headers whose fields have names: which there may be. ``test_pull_header`` reads whole ones."""

import pytest

from cometmq.kernels.headers.named_fields import readers_of
from cometmq.kernels.sends.rows import FIELD_COUNT


def test_names_must_be_told_apart_by_length_and_first_letter() -> None:
    readers_of((b"topic", b"key"))
    with pytest.raises(AssertionError):
        readers_of((b"topic", b"tokyo"))


def test_there_are_places_for_so_many_fields() -> None:
    with pytest.raises(AssertionError):
        readers_of(tuple(b"a" * size for size in range(1, FIELD_COUNT + 2)))
