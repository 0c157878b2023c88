from pathlib import Path

import msgspec
import pytest

from cometmq.format import layout
from cometmq.io.files import Disk
from cometmq.spark.jobs.report.config_table import load_table


class Table(msgspec.Struct):
    offsets: dict[str, dict[int, int]] = msgspec.field(name="offsetTable", default_factory=dict)


WHOLE = b'{"offsetTable":{"orders@shop":{0:17}}}'


@pytest.mark.parametrize(
    ("main", "backup", "expected"),
    [
        (WHOLE, None, {"orders@shop": {0: 17}}),
        (b"{broken", WHOLE, {"orders@shop": {0: 17}}),
        (b'{"offsetTable":[]}', WHOLE, {"orders@shop": {0: 17}}),
        (None, WHOLE, {"orders@shop": {0: 17}}),
        (b"{broken", b"{broken", {}),
        (None, None, {}),
    ],
)
def test_the_backup_is_read_where_the_table_cannot_be(
    tmp_path: Path, main: bytes | None, backup: bytes | None, expected: dict[str, dict[int, int]]
) -> None:
    path = layout.config_path(tmp_path, "consumerOffset")
    path.parent.mkdir()
    for place, data in ((path, main), (layout.backup_path(path), backup)):
        if data is not None:
            place.write_bytes(data)
    assert load_table(Disk(), tmp_path, "consumerOffset", Table).offsets == expected
