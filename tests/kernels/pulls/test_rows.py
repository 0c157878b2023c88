"""What a broker, a store and the leaf operations on pulls pass each other."""

from itertools import pairwise

import pytest

from cometmq.kernels.pulls import rows as pulls
from cometmq.wire.template import NumbersTemplate


def test_constants_are_the_pieces_side_by_side() -> None:
    template = NumbersTemplate("FOUND", ("a", "b", "c", "d"))
    constants = pulls.constants_of(template)
    bounds = constants.bounds.tolist()
    assert [constants.data[begin:end].tobytes() for begin, end in pairwise(bounds)] == template.pieces()
    with pytest.raises(AssertionError):
        pulls.constants_of(NumbersTemplate("FOUND", ("a", "b", "c")))
