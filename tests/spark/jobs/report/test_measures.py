"""The numbers of each message, without Spark."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.kit.reports import plain_measures

from cometmq.spark.files.splits import log_files, splits
from cometmq.spark.jobs.report.measures import GATHERED, SCHEMA, piece_measures


@pytest.mark.parametrize("bytes_per_task", [300_000, 1 << 30])
def test_each_message_has_a_row_however_the_log_is_cut(
    golden: Mapping[str, Path], bytes_per_task: int
) -> None:
    store = golden["store-clean"]
    batches = [
        batch
        for split in splits(log_files(store), bytes_per_task)
        for batch in piece_measures("a/store", split)
    ]
    assert [row for batch in batches for row in batch.to_pylist()] == list(plain_measures("a/store", store))
    assert batches[0].schema.names == [column.split()[0] for column in SCHEMA.split(", ")]
    assert tuple(batches[0].schema.names[: len(GATHERED)]) == GATHERED
