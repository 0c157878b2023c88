from collections.abc import Mapping
from pathlib import Path

from cometmq.format import layout
from cometmq.io.files import Disk
from cometmq.spark.jobs.report.lags import Lag, lags, load_committed


def test_a_lag_is_what_lies_behind_the_committed_offsets_of_all_queues() -> None:
    committed = {
        "orders@shop": {0: 7, 1: 2},
        "orders@late": {0: 0},
        "gone@shop": {0: 5},
        "orders@ahead": {1: 99},
    }
    assert lags("a", committed, {("orders", 0): 10, ("orders", 1): 4}) == [
        Lag("a", "late", "orders", 10),
        Lag("a", "shop", "orders", 5),
        Lag("a", "ahead", "orders", 0),
        Lag("a", "shop", "gone", 0),
    ]


def test_what_java_wrote_is_read_and_else_its_backup(golden: Mapping[str, Path], tmp_path: Path) -> None:
    offsets = load_committed(Disk(), golden["store-clean"])
    assert offsets["GoldenA@GoldenGroupPartial"] == {0: 10, 1: 11, 2: 12, 3: 13}
    assert load_committed(Disk(), tmp_path) == {}
    path = layout.config_path(tmp_path, "consumerOffset")
    path.parent.mkdir()
    path.write_bytes(b"{broken")
    layout.backup_path(path).write_bytes(b'{"offsetTable":{"orders@shop":{0:17}}}')
    assert load_committed(Disk(), tmp_path) == {"orders@shop": {0: 17}}
