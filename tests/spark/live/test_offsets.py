import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.errors import SettingsError
from cometmq.message import MessageQueue
from cometmq.spark.live.offsets import nested, read

QUEUES = st.builds(MessageQueue, st.sampled_from(("a", "b")), st.sampled_from(("x", "y")), st.integers(0, 20))


@given(st.dictionaries(QUEUES, st.integers(-2, 2**63 - 1)), st.randoms())
def test_what_is_written_is_read_and_the_order_does_not_matter(
    offsets: dict[MessageQueue, int], chance: Any
) -> None:
    text = json.dumps(nested(offsets))
    assert read("offsets", json.loads(text)) == offsets
    shuffled = list(offsets.items())
    chance.shuffle(shuffled)
    assert json.dumps(nested(dict(shuffled))) == text


def test_queues_are_in_the_order_of_their_numbers() -> None:
    offsets = {MessageQueue("t", "b", queue_id): 1 for queue_id in (10, 9, 1)}
    assert list(nested(offsets)["t"]["b"]) == ["1", "9", "10"]


@pytest.mark.parametrize(
    "value", [[], {"t": 1}, {"t": {"b": {"x": 1}}}, {"t": {"b": {"0": -3}}}, {"t": {"b": {"0": True}}}]
)
def test_anything_else_is_refused_by_its_name(value: object) -> None:
    with pytest.raises(SettingsError, match=r"startingOffsets: .* is malformed: write topics, brokers"):
        read("startingOffsets", value)
