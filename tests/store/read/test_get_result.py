"""What a read gives."""

from cometmq.store.read.get_result import GetResult, GetStatus, split


def test_records_are_cut_out_of_runs_whatever_lies_side_by_side() -> None:
    result = GetResult(GetStatus.FOUND, 4, 0, 4, [memoryview(b"aabbb"), b"c"], (2, 3, 1))
    assert result.records == [b"aa", b"bbb", b"c"]
    assert split(b"", ()) == []
