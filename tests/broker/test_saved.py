import json
from pathlib import Path

import pytest

from cometmq.broker import saved
from cometmq.errors import StoreDamaged, StoreNotWritable
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import DataVersion


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    table = JsonTable(Disk(), tmp_path / "version.json")
    assert saved.load(table, DataVersion) is None
    saved.save(table, DataVersion(1, 2, 3))
    assert json.loads(table.path.read_text()) == {"counter": 1, "stateVersion": 2, "timestamp": 3}
    assert saved.load(table, DataVersion) == DataVersion(1, 2, 3)


def test_something_else_is_damage_that_names_the_file_and_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "version.json"
    path.write_text('{"counter":"many"}')
    with pytest.raises(StoreDamaged, match=r"version\.json.*DataVersion.*\.bak"):
        saved.load(JsonTable(Disk(), path), DataVersion)


def test_a_disk_that_refuses_is_said(tmp_path: Path) -> None:
    (tmp_path / "version.json").mkdir()
    with pytest.raises(StoreNotWritable):
        saved.save(JsonTable(Disk(), tmp_path / "version.json"), DataVersion())
