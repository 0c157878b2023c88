from pathlib import Path

import pytest
from tests.broker.conftest import serving

from cometmq.broker.refused import Refused
from cometmq.broker.settings_by_subject import PopSettings
from cometmq.broker.state.pop.handles import HandlePoint, Handles, illegal_offset, point_of
from cometmq.format.pop.check_point import CheckPoint
from cometmq.format.pop.names import RetryFlag
from cometmq.format.pop.receipt import ReceiptHandle
from cometmq.store.queue.queue_ends import QueueEnds
from cometmq.wire.codes import ResponseCode


async def test_a_handle_s_queue_must_exist(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        await bench.send("T", queue_id=2)
        handles = Handles(bench.store, bench.parts.topics, PopSettings())
        assert handles.ends_of("T", 2) == QueueEnds(0, 1)
        assert handles.ends_of("T", 0) == QueueEnds(0, 0)
        for topic, queue_id, code in (("None", 0, 17), ("T", 4, 13), ("T", -1, 13)):
            with pytest.raises(Refused) as refused:
                handles.ends_of(topic, queue_id)
            assert refused.value.code == code


def test_a_handle_names_the_check_point_of_its_message() -> None:
    popped = CheckPoint("T", "g", 3, 5, 1_000_000, 15_000, (0, 2), "broker-a")
    receipt = ReceiptHandle(5, 1_000_000, 15_000, 2, RetryFlag.NONE, "broker-a", 3, 7)
    named = point_of(receipt, "T", "g", 3)
    assert named == HandlePoint(popped.key, popped.revive_time_ms, 2)
    assert hash(named) == hash(point_of(receipt._replace(offset=5), "T", "g", 3))


async def test_a_handle_s_revive_queue_is_one_of_the_settings(tmp_path: Path) -> None:
    async with serving(tmp_path) as bench:
        handles = Handles(bench.store, bench.parts.topics, PopSettings(revive_queue_num=2))
        assert [number for number in (-1, 0, 1, 2, 999) if handles.has_revive_queue(number)] == [0, 1]
        assert [number for number in (0, 1, 999) if handles.is_in_order(number)] == [999]


def test_an_offset_without_a_message_is_refused_in_rocketmqs_words() -> None:
    refused = illegal_offset("T", 3, 7, QueueEnds(1, 5))
    assert (refused.code, refused.remark) == (
        ResponseCode.NO_MESSAGE,
        "offset is illegal, key:T@3, commit:7, store:1~5",
    )
