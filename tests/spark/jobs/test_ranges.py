"""Stretches of a log, without Spark."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.counted import CountedFiles

from cometmq.format import layout
from cometmq.spark.files.remote import path_of
from cometmq.spark.files.splits import LogFile, log_files, splits, within
from cometmq.spark.jobs import ranges
from cometmq.spark.jobs.ranges import LogRange


@pytest.mark.parametrize("bytes_per_task", [50_000, 1 << 30])
def test_pieces_within_a_stretch_are_those_bytes_of_the_log(
    golden: Mapping[str, Path], bytes_per_task: int
) -> None:
    files = log_files(golden["store-clean"])
    whole = splits(files, bytes_per_task)
    last = files[-1].base_offset
    for begin, end in [(0, 1), (60_000, 123_456), (900_000, last + 5), (last + 9, 2**63 - 1), (7, 7)]:
        pieces = [piece for split in whole for piece in within(split, *LogRange(begin, end))]
        covered = [
            offset
            for piece in pieces
            for offset in (piece.file.base_offset + piece.start, piece.file.base_offset + piece.end)
        ]
        assert covered == sorted(covered)
        limit = files[-1].base_offset + files[-1].written
        if begin < end:
            assert (covered[0], covered[-1]) == (begin, min(end, limit))
        else:
            assert pieces == []


def test_all_is_the_default(golden: Mapping[str, Path]) -> None:
    for split in splits(log_files(golden["store-clean"]), 100_000):
        assert within(split, *LogRange()) == split


def test_a_second_run_over_ten_tebibytes_has_tasks_for_what_is_new_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ranges, "on_parts", lambda _, parts, *__: parts)
    names = [layout.offset_name(number << 30) for number in range(10_241)]
    CountedFiles.start({f"lake/store/commitlog/{name}": 1 << 30 for name in names})
    spark: Any = None
    files = log_files(path_of("counted://lake/store"))
    parts: Any = ranges.records(spark, files, ("topic",), LogRange(10_240 << 30))
    assert [piece.file for part in parts for piece in part] == [files[-1]] * 8
    assert CountedFiles.requests.total() == 11 and not CountedFiles.fetched


def test_a_file_that_is_missing_in_the_stretch_is_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(ranges, "on_parts", lambda _, parts, *__: parts)
    files = [LogFile(Path("commitlog", layout.offset_name(base)), base, 10, 10) for base in (0, 20, 30)]
    spark: Any = None
    ranges.records(spark, files, ("topic",), LogRange(20))
    assert caplog.text == ""
    ranges.records(spark, files, ("topic",), LogRange(5))
    assert "commitlog: the CommitLog has no file with the offsets 10 to 20" in caplog.text
