import json
from pathlib import Path
from typing import Any

import pytest

from cometmq.broker.state import table_files
from cometmq.broker.state.table_files import EntryFile, load
from cometmq.errors import StoreDamaged, StoreNotWritable
from cometmq.io.files import Disk
from cometmq.store.tables import JsonTable
from cometmq.wire.bodies import Body, DataVersion, TopicConfig, TopicTable, to_plain


def test_what_is_written_is_loaded(tmp_path: Path) -> None:
    table = JsonTable(Disk(), tmp_path / "topics.json")
    assert load(table, TopicTable) is None
    EntryFile[TopicConfig](table, TopicTable, "topics").write(
        TopicTable(DataVersion(1, 2, 3)), {"T": TopicConfig(topic="T", perm=4)}
    )
    written = json.loads(table.path.read_text())
    assert written["dataVersion"] == {"counter": 1, "stateVersion": 2, "timestamp": 3}
    loaded = load(table, TopicTable)
    assert loaded is not None
    assert (loaded.data_version, loaded.topics["T"].perm) == (DataVersion(1, 2, 3), 4)


def test_something_else_is_damage_that_names_the_file_and_the_remedy(tmp_path: Path) -> None:
    path = tmp_path / "version.json"
    path.write_text('{"counter":"many"}')
    with pytest.raises(StoreDamaged, match=r"version\.json.*DataVersion.*\.bak"):
        load(JsonTable(Disk(), path), DataVersion)


def test_the_error_of_a_disk_that_refuses_names_the_file_and_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "topics.json").mkdir()
    file = EntryFile[TopicConfig](JsonTable(Disk(), tmp_path / "topics.json"), TopicTable, "topics")
    with pytest.raises(StoreNotWritable, match=r"topics\.json is not saved: .*make it writable"):
        file.write(TopicTable(), {})


def test_entries_written_before_are_not_written_again_and_the_file_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, kept = (JsonTable(Disk(), tmp_path / name) for name in ("whole.json", "kept.json"))
    file = EntryFile[TopicConfig](kept, TopicTable, "topics")
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
        whole.save(to_plain(TopicTable(DataVersion(1, 0, 2), topics=there)))
        with monkeypatch.context() as patched:
            patched.setattr(table_files, "to_plain", listen)
            file.write(TopicTable(DataVersion(1, 0, 2)), changes)
        assert kept.path.read_text() == whole.path.read_text()
    assert written == ["B", "A", "Ü", "A"]
