import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Process, Run


@pytest.fixture
def acked(golden_facts: Mapping[str, Any]) -> dict[str, Any]:
    """A message that was sent to the killed broker."""
    sends = [send for send in golden_facts["store-killed"]["acked"] if send.get("keys")]
    send: dict[str, Any] = sends[40]
    return send


@pytest.fixture
def store(golden: Mapping[str, Path]) -> Path:
    return golden["store-killed"]


def test_a_message_is_found_by_id_key_and_time_in_a_dead_brokers_directory(
    cometmq: Run, store: Path, acked: dict[str, Any]
) -> None:
    (message,) = cometmq("store", "find", str(store), "--id", acked["msgId"], "--json").values
    assert (message["message_id"], message["topic"]) == (acked["msgId"], acked["topic"])
    key = message["keys"][0]
    for asked in (
        ("--id", message["offset_id"]),
        ("--key", key),
        ("--key", key, "--topic", message["topic"], "--scan"),
        ("--time", str(message["store_time"]), "--key", key),
        ("--key", key, "--tag", message["tags"]) if message["tags"] else ("--key", key),
    ):
        found = cometmq("store", "find", str(store), *asked, "--json")
        assert (found.code, found.values) == (0, [message])


def test_people_see_fields_and_body(cometmq: Run, store: Path, acked: dict[str, Any]) -> None:
    ran = cometmq("store", "find", str(store), "--id", acked["msgId"])
    assert ran.code == 0
    for words in (
        "topic  " + acked["topic"],
        "message_id  " + acked["msgId"],
        "store_time  1795245",
        "body  ",
    ):
        assert words in ran.out


def test_a_body_is_written_to_a_file_as_it_was_sent(
    cometmq: Run, golden: Mapping[str, Path], golden_facts: Mapping[str, Any], tmp_path: Path
) -> None:
    sends = {send["kind"]: send for send in golden_facts["store-clean"]["acked"]}
    for kind in ("normal", "big", "compressed-ZLIB", "compressed-LZ4", "compressed-ZSTD"):
        arguments = ("--id", sends[kind]["msgId"], "--body-out", str(tmp_path / "body"))
        assert cometmq("store", "find", str(golden["store-clean"]), *arguments).code == 0
        assert hashlib.sha1((tmp_path / "body").read_bytes()).hexdigest() == sends[kind]["bodySha1"]


def test_a_body_file_takes_one_message(cometmq: Run, store: Path, tmp_path: Path) -> None:
    ran = cometmq("store", "find", str(store), "--topic", "GoldenA", "--body-out", str(tmp_path / "body"))
    assert ran.failed(2, "--body-out writes one message", "--id")
    assert not (tmp_path / "body").exists()


def test_not_found_ends_with_1_and_prints_nothing(cometmq: Run, store: Path) -> None:
    for asked in (("--key", "nothing"), ("--id", "00" * 16), ("--time", "2020-01-01"), ("--topic", "None")):
        assert cometmq("store", "find", str(store), *asked, "--json") == (3, "", "not found\n")


def test_at_most_so_many_are_printed(cometmq: Run, store: Path) -> None:
    ran = cometmq("store", "find", str(store), "--topic", "GoldenB", "--limit", "3", "--json")
    assert [message["topic"] for message in ran.values] == ["GoldenB"] * 3
    offsets = [message["physical_offset"] for message in ran.values]
    assert offsets == sorted(offsets)
    ran = cometmq("store", "find", str(store), "--topic", "GoldenB", "--limit", "9" * 30, "--json")
    assert len(ran.values) > 3


def test_a_question_that_cannot_be_used_ends_with_2(cometmq: Run, store: Path) -> None:
    assert cometmq("store", "find", str(store)).failed(2, "no condition", "--key")
    assert cometmq("store", "find", str(store), "--time", "noon").failed(2, "'noon'", "2026-11-21")
    assert cometmq("store", "find", str(store), "--key", "k", "--limit", "0").failed(2, "--limit")
    assert cometmq("store", "find", str(store.parent), "--key", "k").failed(2, "holds no commitlog/")


def test_a_file_that_cannot_be_used_is_left_out_and_told(cometmq: Run, tmp_path: Path) -> None:
    root = tmp_path / "store"
    (root / "commitlog").mkdir(parents=True)
    (root / "commitlog" / f"{0:020}").write_bytes(bytes(8_192))
    (root / "commitlog" / f"{8_192:020}").write_bytes(bytes(5_000))
    (root / "commitlog" / f"{16_384:020}").write_bytes(bytes(8_192))
    ran = cometmq("store", "find", str(root), "--topic", "Orders")
    assert ran.code == 3
    assert "left out: " in ran.err and "has 5000 bytes, expected 8192" in ran.err


def test_it_runs_as_a_process_of_its_own(store: Path, acked: dict[str, Any]) -> None:
    with Process("store", "find", str(store), "--id", acked["msgId"], "--json") as process:
        assert process.end().values[0]["message_id"] == acked["msgId"]
