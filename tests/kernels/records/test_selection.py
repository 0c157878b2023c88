import pytest

from cometmq.format.host import pack_host
from cometmq.format.record import Record, encode
from cometmq.kernels.ops import Ops

HOST = pack_host("127.0.0.1", 10911)
TOPICS = ["A", "B", "A", "AB", "\udcff"]
LOG = b""
for time, topic in enumerate(TOPICS):
    LOG += encode(Record(topic, b"", b"", 0, 0, len(LOG), 0, 0, 1, HOST, 1000 + time, HOST))


@pytest.mark.parametrize(
    ("topics", "begin_time", "end_time", "rows"),
    [
        (None, 0, 2**63 - 1, [0, 1, 2, 3, 4]),
        (["A"], 0, 2**63 - 1, [0, 2]),
        (["AB", "B"], 0, 2**63 - 1, [1, 3]),
        (["\udcff"], 0, 2**63 - 1, [4]),
        (["C"], 0, 2**63 - 1, []),
        ([], 0, 2**63 - 1, []),
        (None, 1001, 1003, [1, 2]),
        (["A"], 1001, 1003, [2]),
    ],
)
def test_chooses_by_topic_and_time(
    ops: Ops, topics: list[str] | None, begin_time: int, end_time: int, rows: list[int]
) -> None:
    scan = ops.scan(LOG, base_offset=0)
    assert ops.select(LOG, scan, topics=topics, begin_time=begin_time, end_time=end_time).tolist() == rows


def test_chooses_all_when_not_told_otherwise(ops: Ops) -> None:
    assert ops.select(LOG, ops.scan(LOG, base_offset=0)).tolist() == [0, 1, 2, 3, 4]


def test_a_store_time_that_damage_made_is_no_reason_to_leave_a_record_out(ops: Ops) -> None:
    log = b"".join(
        encode(Record("A", b"", b"", 0, 0, 0, 0, 0, 1, HOST, time, HOST))
        for time in (-(2**63), -1, 2**63 - 1)
    )
    scan = ops.scan(log, base_offset=None)
    assert ops.select(log, scan).tolist() == [0, 1, 2]
    assert ops.select(log, scan, begin_time=0).tolist() == [2]
    assert ops.select(log, scan, end_time=0).tolist() == [0, 1]
