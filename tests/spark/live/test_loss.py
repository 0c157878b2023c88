import pytest

from cometmq.errors import StoreDamaged
from cometmq.message import MessageQueue
from cometmq.spark.live.loss import joined, tell_loss
from cometmq.spark.live.options import parse
from cometmq.spark.live.ranges import Range

FIRST, SECOND = (MessageQueue("t", "b", number) for number in range(2))
OPTIONS = {"namesrv": "a:1", "subscribe": "t"}


def test_a_loss_is_an_error_that_names_it_and_the_remedy() -> None:
    tell_loss(parse(OPTIONS), [], "nobody knows")
    with pytest.raises(
        StoreDamaged, match="topic t, broker b, queue 0, offsets 3 to 8: nobody knows; with failOn"
    ):
        tell_loss(parse(OPTIONS), [Range(FIRST, 3, 5), Range(FIRST, 5, 9)], "nobody knows")


def test_without_fail_on_data_loss_the_same_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    lost = [Range(FIRST, 10 * number, 10 * number + 1) for number in range(30)]
    tell_loss(parse(OPTIONS | {"failOnDataLoss": "false"}), lost, "nobody knows")
    assert "queue 0, offset 190; and 10 more: nobody knows" in caplog.text


def test_ranges_of_a_queue_that_follow_on_each_other_are_joined() -> None:
    assert joined([Range(SECOND, 4, 5), Range(FIRST, 2, 4), Range(FIRST, 0, 2), Range(FIRST, 6, 7)]) == [
        Range(FIRST, 0, 4),
        Range(FIRST, 6, 7),
        Range(SECOND, 4, 5),
    ]
