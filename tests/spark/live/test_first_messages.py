import json
from collections.abc import Mapping

import pytest

from cometmq.errors import SettingsError
from cometmq.message import MessageQueue
from cometmq.spark.live import offsets
from cometmq.spark.live.first_messages import UNKNOWN, FirstMessage, compare, read, with_first_messages
from cometmq.spark.live.survey import Extent

QUEUES = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(3)]
PLACE = ("orders", "broker-a")
KNOWN = FirstMessage(1, 5, 1_700)


def compared(
    known: FirstMessage | None, extents: list[tuple[int, int]], found: FirstMessage | None
) -> tuple[FirstMessage | None, bool]:
    """Compare what is known with what is found; return what is known then, and if it is another topic."""

    def find(expected: Mapping[MessageQueue, FirstMessage]) -> dict[MessageQueue, FirstMessage | None]:
        return dict.fromkeys(expected, found)

    of_queues = {queue: Extent(*extent) for queue, extent in zip(QUEUES, extents, strict=True)}
    result = compare({PLACE: known} if known else {}, of_queues, [PLACE], find)
    return result.known.get(PLACE), bool(result.recreated)


@pytest.mark.parametrize(
    ("extent", "found", "known", "is_recreated"),
    [
        ((5, 9), KNOWN, KNOWN, False),
        ((5, 9), FirstMessage(1, 5, 1_701), FirstMessage(1, 5, 1_701), True),  # of another time
        (
            (0, 9),
            FirstMessage(1, 0, 1_701),
            FirstMessage(1, 0, 1_701),
            True,
        ),  # a later one at an earlier offset
        ((0, 9), FirstMessage(1, 0, 1_600), FirstMessage(1, 0, 1_600), False),  # one that counted as removed
        ((0, 5), FirstMessage(1, 0, 1_701), FirstMessage(1, 0, 1_701), True),
        ((0, 0), None, None, True),  # it had a message, and has had none
        ((7, 9), FirstMessage(1, 7, 1_800), FirstMessage(1, 7, 1_800), False),  # it has expired
        ((9, 9), None, KNOWN, False),  # all have
        ((5, 9), None, KNOWN, False),  # it expires at this moment
    ],
)
def test_a_topic_that_was_created_again_is_told_from_one_whose_messages_expire(
    extent: tuple[int, int], found: FirstMessage | None, known: FirstMessage | None, is_recreated: bool
) -> None:
    assert compared(KNOWN, [(0, 0), extent, (0, 1)], found) == (known, is_recreated)


def test_the_first_queue_that_has_messages_is_the_one_to_know() -> None:
    asked: list[FirstMessage] = []

    def find(expected: Mapping[MessageQueue, FirstMessage]) -> dict[MessageQueue, FirstMessage | None]:
        asked.extend(expected.values())
        return dict.fromkeys(expected, KNOWN)

    extents = dict(zip(QUEUES, (Extent(3, 3), Extent(5, 9), Extent(0, 1)), strict=True))
    assert compare({}, extents, [PLACE], find).known == {PLACE: KNOWN}
    assert compare({PLACE: KNOWN}, extents, [PLACE], find).known == {PLACE: KNOWN}
    assert asked == [FirstMessage(1, 5, UNKNOWN), KNOWN]
    assert compare({}, extents, [], find).known == {} and len(asked) == 2, "only what has news is asked for"
    assert compared(None, [(0, 0)] * 3, None) == (None, False)


def test_first_messages_are_written_behind_the_offsets_and_are_none_of_them() -> None:
    known = {("b", "y"): FirstMessage(0, 1, 2), ("a", "x"): KNOWN}
    ends = {MessageQueue("a", "x", 0): 7}
    written = with_first_messages(offsets.nested(ends), known)
    assert list(written) == ["a", "@a", "@b"]
    stored = json.loads(json.dumps(written))
    assert read("the checkpoint", stored) == known and offsets.read("the checkpoint", stored) == ends
    assert read("the checkpoint", offsets.nested(ends)) == {}
    with pytest.raises(SettingsError, match=r"the checkpoint: .* holds no first messages"):
        read("the checkpoint", {"@a": {"x": {"0": 1}}})
