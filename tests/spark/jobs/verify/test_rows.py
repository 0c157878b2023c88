"""What a task reads of a log: ``test_checks`` compares what comes of it."""

import pickle
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from cometmq.format import layout
from cometmq.format.checksum import Crc
from cometmq.format.delay_level import DelayLevels
from cometmq.spark.files.splits import log_files, splits
from cometmq.spark.jobs.piece_scan import PieceSeen
from cometmq.spark.jobs.rebuild.entries import QUEUE_ROW, Rules
from cometmq.spark.jobs.verify import rows as module
from cometmq.spark.jobs.verify.rows import ERROR, KEYS, PIECE, QUEUE, LogPart, read_rows

RULES = Rules(Crc.BODY, DelayLevels(()), indexed=True)


def parts(store: Path, bytes_per_task: int) -> list[LogPart]:
    return [LogPart(7, pieces, RULES, 2**62) for pieces in splits(log_files(store), bytes_per_task)]


@pytest.mark.parametrize("bytes_per_task", [50_000, 1 << 30])
def test_each_record_is_in_the_rows_of_one_task(golden: Mapping[str, Path], bytes_per_task: int) -> None:
    found = [row for part in parts(golden["store-clean"], bytes_per_task) for row in part.rows()]
    pieces: list[PieceSeen] = [pickle.loads(row["data"]) for row in found if row["kind"] == PIECE]
    offsets = [
        offset
        for row in found
        if row["kind"] == QUEUE
        for offset in np.frombuffer(row["data"], QUEUE_ROW)["entry"]["physical_offset"].tolist()
    ]
    assert sum(segment.messages for piece in pieces for segment in piece.segments) >= len(offsets) > 2_000
    assert len(set(offsets)) == len(offsets)
    assert all(row["store"] == 7 for row in found) and any(row["kind"] == KEYS for row in found)
    blanks = [piece.blank for piece in pieces if piece.blank is not None]
    assert [blank.offset + blank.size for blank in blanks] == [1 << 20]


def test_rows_go_to_spark_some_at_a_time(golden: Mapping[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    (part,) = parts(golden["store-clean"], 1 << 30)
    (whole,) = read_rows(part)
    monkeypatch.setattr(module, "_MANY_BYTES", 10_000)
    some = list(read_rows(part))
    assert len(some) > 3 and sum(batch.num_rows for batch in some) == whole.num_rows


def test_a_part_that_cannot_be_read_says_why(golden: Mapping[str, Path], tmp_path: Path) -> None:
    (part,) = parts(golden["store-clean"], 1 << 30)
    piece = part.pieces[0]
    gone = piece._replace(file=piece.file._replace(path=layout.commitlog_path(tmp_path, 0)))
    (batch,) = read_rows(part._replace(pieces=[gone]))
    (row,) = batch.to_pylist()
    assert (row["kind"], row["store"]) == (ERROR, 7) and b"No such file" in row["data"]
