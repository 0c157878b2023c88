from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from tests.log_rows import Row, plain_rows

from cometmq.kernels import plain
from cometmq.spark.files.record_choice import RecordChoice
from cometmq.spark.files.remote import opened
from cometmq.spark.files.splits import LogFile, log_files, splits
from cometmq.spark.files.walk import scans
from cometmq.spark.filters import Pushed
from cometmq.spark.options import ReadOptions

NONE: tuple[Path, ...] = ()


def offsets(store: Path, choice: RecordChoice) -> list[int]:
    found = []
    for split in splits(log_files(store), 1 << 30):
        for piece in choice.pieces(split):
            window = opened(piece.file.path, piece.file.size, piece.end)
            for data, _, scan in scans(
                window, piece, plain, on_damage=lambda damage: pytest.fail(str(damage))
            ):
                rows = choice.rows(plain, data, scan)
                found += scan.physical_offset[rows].tolist()
    return found


@pytest.mark.parametrize(
    ("choice", "is_wanted"),
    [
        (RecordChoice(), lambda _: True),
        (RecordChoice(queue_ids=frozenset({1, 3})), lambda row: row["queue_id"] in {1, 3}),
        (RecordChoice(begin=3), lambda row: row["queue_offset"] >= 3),
        (RecordChoice(end=7), lambda row: row["queue_offset"] < 7),
        (
            RecordChoice(physical_begin=400_000, physical_end=1_100_000),
            lambda row: 400_000 <= row["physical_offset"] < 1_100_000,
        ),
        (RecordChoice(tags=frozenset({"TagA", "TagC"})), lambda row: row["tags"] in {"TagA", "TagC"}),
        (
            RecordChoice(topics=frozenset({"GoldenA"}), tags=frozenset({"TagB"}), begin=5),
            lambda row: (row["topic"], row["tags"]) == ("GoldenA", "TagB") and row["queue_offset"] >= 5,
        ),
    ],
)
def test_records_are_chosen_that_are_asked_for(
    golden: Mapping[str, Path], choice: RecordChoice, is_wanted: Callable[[Row], bool]
) -> None:
    rows = list(plain_rows(golden["store-clean"]))
    expected = [row["physical_offset"] for row in rows if is_wanted(row)]
    assert len(expected) > 0 and (choice == RecordChoice() or len(expected) < len(rows))
    assert offsets(golden["store-clean"], choice) == expected


def test_records_are_chosen_by_a_key_or_an_id(golden: Mapping[str, Path]) -> None:
    rows = list(plain_rows(golden["store-clean"]))
    one = next(row for row in rows if len(row["keys"]) > 1)
    for key in one["keys"]:
        expected = [row["physical_offset"] for row in rows if key in row["keys"]]
        assert offsets(golden["store-clean"], RecordChoice(key=key)) == expected
    ids = frozenset({one["unique_id"]})
    expected = [row["physical_offset"] for row in rows if row["unique_id"] in ids]
    assert offsets(golden["store-clean"], RecordChoice(unique_ids=ids)) == expected
    assert offsets(golden["store-clean"], RecordChoice(unique_ids=ids, key="nobody's")) == []


def test_options_and_clauses_are_both_obeyed() -> None:
    options = ReadOptions(
        NONE,
        topics=frozenset({"a", "b"}),
        starting_time=5,
        ending_time=90,
        tags=frozenset({"x"}),
        key="k",
    )
    pushed = Pushed(
        topics=frozenset({"b", "c"}), begin_time=7, end_time=80, tags=frozenset({"x", "y"}), end=9
    )
    assert RecordChoice.of(options, pushed) == RecordChoice(
        topics=frozenset({"b"}), begin_time=7, end_time=81, tags=frozenset({"x"}), end=9, key="k"
    )
    assert RecordChoice.of(options, Pushed()).end_time == 90


@pytest.mark.parametrize(
    "choice",
    [
        RecordChoice(topics=frozenset()),
        RecordChoice(tags=frozenset()),
        RecordChoice(begin=5, end=5),
        RecordChoice(physical_begin=5, physical_end=5),
    ],
)
def test_what_no_record_can_be_is_not_looked_for(choice: RecordChoice) -> None:
    (split,) = splits([LogFile(Path(f"{0:020}"), 0, 100, 100)], 100)
    assert RecordChoice().pieces(split) == split
    assert choice.pieces(split) == []
