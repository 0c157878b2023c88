import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from cometmq.store import MessageStore, StoreSettings


@pytest.fixture
def store(golden: Mapping[str, Path]) -> Path:
    return golden["store-clean"]


def test_a_store_directory_is_shown_at_a_glance(cometmq: Run, store: Path) -> None:
    ran = cometmq("store", "inspect", str(store))
    assert (ran.code, ran.err) == (0, "")
    for words in (
        f"{store}: was closed",
        "CommitLog: 2 files of 1.0 MiB, offsets 0 to 1294834 (1.2 MiB)",
        "from 2026-11-21T07:12:35.796Z to 2026-11-21T07:13:02.319Z",
        "SCHEDULE_TOPIC_XXXX",
        "20261121071241079",
        "topics.json",
    ):
        assert words in ran.out
    (value,) = cometmq("store", "inspect", str(store), "--json").values
    assert {"topic": "GoldenA", "queues": 4, "messages": 944} in value["topics"]
    assert (value["root"], value["log_end"], value["was_closed"]) == (str(store), 1_294_834, True)


def test_a_killed_and_an_open_store_are_told_apart(
    cometmq: Run, golden: Mapping[str, Path], tmp_path: Path
) -> None:
    assert "was not closed" in cometmq("store", "inspect", str(golden["store-killed"])).out
    with MessageStore.open(tmp_path / "store", StoreSettings(mapped_file_size_commit_log=65_536)):
        (tmp_path / "store" / "commitlog").mkdir(exist_ok=True)
        assert "open in process" in cometmq("store", "inspect", str(tmp_path / "store")).out


def test_a_commit_log_file_is_shown_record_by_record_field_by_field(cometmq: Run, store: Path) -> None:
    path = store / "commitlog" / "00000000000001048576"
    ran = cometmq("store", "inspect", str(path), "--limit", "2")
    lines = ran.out.splitlines()
    assert lines[0] == f"{path}: CommitLog file, 1048576 bytes, begins at offset 1048576"
    assert lines[1] == "record at 0 (offset 1048576), 29259 bytes"
    assert lines[7].split() == ["20", "queue_offset", "99"]
    assert "record at 29259 (offset 1077835), 32259 bytes" in lines
    assert lines[-1] == "more: --at 1110094"
    values = cometmq("store", "inspect", str(path), "--at", "1110094", "--limit", "1", "--json").values
    assert [value["position"] for value in values] == [61_518]
    fields = {field["name"]: field["value"] for field in values[0]["fields"]}
    assert (fields["physical_offset"], fields["topic"]) == (1_110_094, "GoldenB")


def test_queue_and_index_files_are_shown_as_tables(cometmq: Run, store: Path) -> None:
    queue = store / "consumequeue" / "GoldenA" / "0" / "00000000000000000000"
    ran = cometmq("store", "inspect", str(queue), "--at", "1", "--limit", "1")
    assert ran.out.splitlines()[-2].split() == ["20", "1", "8161", "425", "26572473"]
    assert ran.out.splitlines()[-1] == "more: --at 2"
    index = store / "index" / "20261121071245878"
    ran = cometmq("store", "inspect", str(index), "--limit", "1")
    assert "header at 0, 40 bytes" in ran.out and "more slots are used" in ran.out
    assert ran.out.splitlines()[-2].split() == ["4060", "1", "657987321", "1258003", "0", "0"]
    rows = cometmq("store", "inspect", str(index), "--json", "--limit", "5").values
    assert [row["what"] for row in rows].count("entry") == 5


def test_the_end_of_a_file_has_no_more(cometmq: Run, store: Path) -> None:
    queue = store / "consumequeue" / "rmq_sys_wheel_timer" / "0" / "00000000000000000000"
    ran = cometmq("store", "inspect", str(queue), "--limit", "1000")
    assert ran.code == 0 and "more:" not in ran.out
    assert "unused at 400, 5600 bytes: zeros" in ran.out


def test_damage_is_shown_and_what_lies_behind_it(cometmq: Run, store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "commitlog" / "00000000000000000000"
    copy.parent.mkdir()
    data = bytearray((store / "commitlog" / copy.name).read_bytes())
    data[100] ^= 1
    copy.write_bytes(data)
    values = cometmq("store", "inspect", str(copy), "--limit", "2", "--json").values
    assert [value["what"] for value in values] == ["damaged", "record"]
    assert "BODYCRC" in values[0]["note"]
    assert "damaged at 0, " in cometmq("store", "inspect", str(copy), "--limit", "1").out


def test_tables_and_the_checkpoint_are_shown(cometmq: Run, store: Path) -> None:
    path = store / "config" / "topics.json"
    ran = cometmq("store", "inspect", str(path))
    assert ran.out.endswith(path.read_text() + "\n")
    (row,) = cometmq("store", "inspect", str(path), "--json").values
    assert row["fields"][0]["value"] == json.loads(path.read_text())
    assert "physic_msg_timestamp" in cometmq("store", "inspect", str(store / "checkpoint")).out
    offsets = cometmq("store", "inspect", str(store / "config" / "consumerOffset.json"), "--json").values
    assert offsets[0]["fields"][0]["value"]["offsetTable"]


def test_what_cannot_be_shown_ends_with_2(cometmq: Run, store: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("hello")
    for arguments, words in (
        ((str(tmp_path / "nowhere"),), "no such file or directory"),
        ((str(tmp_path / "notes"),), "is no store file"),
        ((str(tmp_path),), "holds no commitlog/"),
        ((str(store), "--at", "5"), "is a directory"),
        ((str(store / "commitlog" / "00000000000000000000"), "--at", "9999999"), "--at 9999999"),
    ):
        assert cometmq("store", "inspect", *arguments).failed(2, words)
