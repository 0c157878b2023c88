import shutil
from pathlib import Path

from tests.cli.conftest import Process, Run

LOG = "commitlog/00000000000000000000"
CONFIG = "mappedFileSizeConsumeQueue=6000\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n"


def test_what_is_gone_is_made_anew_with_the_sizes_of_the_settings(
    cometmq: Run, store: Path, tmp_path: Path
) -> None:
    shutil.rmtree(store / "consumequeue")
    shutil.rmtree(store / "index")
    config = tmp_path / "broker.conf"
    config.write_text(CONFIG + "mappedFileSizeCommitLog=1048576\n")
    ran = cometmq("store", "rebuild", str(store), "--config", str(config))
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(
        f"{store}: rebuilt 24 queues and 3 index files from 2685 messages, 1.2 MiB of log, "
    )
    assert cometmq("store", "verify", str(store)).code == 0


def test_damage_and_what_it_costs_are_told(cometmq: Run, store: Path) -> None:
    with (store / LOG).open("r+b") as file:
        file.seek(8_161 + 100)
        file.write(b"\xff\xfe")
    ran = cometmq("store", "rebuild", str(store))
    assert ran.code == 0
    assert f"damage: {store / LOG}, byte 8161, 425 bytes: BODYCRC" in ran.out
    assert "lost: GoldenA-0, queue offsets 1 to 1\n" in ran.out
    (value,) = cometmq("store", "rebuild", str(store), "--json").values
    assert (value["messages"], value["queues"], value["index_files"]) == (2_684, 24, 3)
    assert [damage["position"] for damage in value["damages"]] == [8_161]
    assert value["gaps"] == [{"topic": "GoldenA", "queue_id": 0, "first": 1, "missing": 1}]
    assert value["bytes"] == 1_294_834


def test_it_runs_as_a_process_of_its_own(store: Path) -> None:
    with Process("store", "rebuild", str(store), "--json") as process:
        assert process.end().values[0]["messages"] == 2_685


def test_what_cannot_be_rebuilt_stays_as_it_is(cometmq: Run, store: Path, tmp_path: Path) -> None:
    assert cometmq("store", "rebuild", str(tmp_path / "nowhere")).failed(2, "no such directory")
    (store / LOG).rename(store / "commitlog" / "00000000000000000007")
    before = sorted((store / "consumequeue").rglob("*"))
    assert cometmq("store", "rebuild", str(store)).failed(1, "the file before it ends at 1048583", "restore")
    assert sorted((store / "consumequeue").rglob("*")) == before


def test_the_levels_by_which_delayed_messages_are_due_are_told(
    cometmq: Run, store: Path, tmp_path: Path
) -> None:
    told = "delayed messages were computed from messageDelayLevel = "
    assert told + "1s 5s 10s 30s 1m 2m" in cometmq("store", "rebuild", str(store)).out
    config = tmp_path / "broker.conf"
    config.write_text(CONFIG + "mappedFileSizeCommitLog=1048576\nmessageDelayLevel=3s 20s\n")
    ran = cometmq("store", "rebuild", str(store), "--config", str(config))
    assert ran.out.endswith(told + "3s 20s\n")
    assert cometmq("store", "verify", str(store)).code == 0
    (value,) = cometmq("store", "rebuild", str(store), "--json").values
    assert value["delayed"] > 0 and value["delay_levels"].startswith("1s 5s")
