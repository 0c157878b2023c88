import json
from pathlib import Path
from typing import Any

import pytest

from cometmq.broker.state import saved
from cometmq.errors import StoreDamaged, StoreNotWritable
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import Body, DataVersion, TopicConfig, TopicTable, to_plain


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


def test_entries_written_before_are_not_written_again_and_the_file_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, kept = (JsonTable(Disk(), tmp_path / name) for name in ("whole.json", "kept.json"))
    file = saved.EntryFile[TopicConfig](kept, TopicTable, "topics")
    topics: dict[str, TopicConfig | None] = {
        name: TopicConfig(topic=name, attributes={"+a": name}) for name in ("B", "A", "Ü")
    }
    written: list[str] = []

    def listen(value: Body) -> Any:
        if isinstance(value, TopicConfig):
            written.append(value.topic)
        return to_plain(value)

    for changes in (topics, {"A": TopicConfig(topic="A", perm=4)}, {"A": None, "Ü": None}, {"B": None}):
        topics |= changes
        there = {name: topic for name, topic in topics.items() if topic is not None}
        saved.save(whole, TopicTable(DataVersion(1, 0, 2), topics=there))
        with monkeypatch.context() as patched:
            patched.setattr(saved, "to_plain", listen)
            file.write(TopicTable(DataVersion(1, 0, 2)), changes)
        assert kept.path.read_text() == whole.path.read_text()
    assert written == ["B", "A", "Ü", "A"]
