from collections.abc import Mapping
from pathlib import Path

from tests.cli.conftest import Process, Run
from tests.live import Live

from cometmq.net.address import free_port
from cometmq.store import Message, MessageStore


def rows(table: str) -> dict[str, list[str]]:
    """A printed table by its first column."""
    return {line.split()[0]: line.split()[1:] for line in table.splitlines() if line.strip()}


def test_a_closed_store_says_so_and_tells_its_pointers(cometmq: Run, golden: Mapping[str, Path]) -> None:
    store = golden["store-clean"]
    ran = cometmq("store", "status", str(store))
    assert ran.code == 0 and ran.out.startswith(f"{store}: was closed\nlast message stored at 2026-")
    assert rows(ran.out)["dispatched"][0] == rows(ran.out)["written"][0] == "1294834"
    (value,) = cometmq("store", "status", str(store), "--json").values
    assert (value["state"], value["holder"], value["at_least"]) == ("closed", None, [])
    assert value["pointers"] == {
        "begin": 0,
        **dict.fromkeys(["written", "committed", "flushed", "confirmed", "dispatched"], 1_294_834),
    }


def test_a_killed_store_tells_what_the_checkpoint_vouches_for(
    cometmq: Run, golden: Mapping[str, Path]
) -> None:
    ran = cometmq("store", "status", str(golden["store-killed"]))
    assert "was not closed, the next start recovers it" in ran.out
    written, flushed = rows(ran.out)["written"], rows(ran.out)["flushed"]
    assert flushed[0] == "≥" and int(flushed[1]) < int(written[0])


def test_an_open_store_names_its_process(cometmq: Run, tmp_path: Path) -> None:
    with MessageStore.open(tmp_path / "store") as store:
        store.append_message(Message("Orders", b"x"))
        with Process("store", "status", str(tmp_path / "store"), "--json") as process:
            ended = process.end()
        (value,) = ended.values
        assert value["state"] == "open" and isinstance(value["holder"], int)
        assert value["pointers"]["written"] == store.written_offset
        assert "open in process" in cometmq("store", "status", str(tmp_path / "store")).out


def test_a_live_broker_tells_more(cometmq: Run, live: Live) -> None:
    assert cometmq("send", "orders", "hello").code == 0
    ran = cometmq("store", "status", "--broker", live.broker)
    assert ran.code == 0 and "\naccepts messages: yes\n" in ran.out
    assert ran.out.startswith(f"{live.broker}: V")
    assert int(rows(ran.out)["dispatched"][0]) == int(rows(ran.out)["written"][0]) > 0
    (value,) = cometmq("store", "status", "--broker", live.broker, "--json").values
    assert value["pointers"]["dispatched"] > 0 and value["not_writable"] == ""


def test_either_a_directory_or_a_broker_must_be_given(cometmq: Run, tmp_path: Path) -> None:
    assert cometmq("store", "status").failed(2, "--broker HOST:PORT")
    assert cometmq("store", "status", str(tmp_path), "--broker", "127.0.0.1:1").failed(2, "either")
    assert cometmq("store", "status", str(tmp_path / "x")).failed(2, "no such directory")
    assert cometmq("store", "status", "--broker", f"127.0.0.1:{free_port()}").failed(1, "127.0.0.1")
