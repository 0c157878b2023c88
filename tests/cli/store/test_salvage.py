import json
from pathlib import Path

from click.testing import CliRunner
from tests.cli.conftest import Run
from tests.store.conftest import SMALL, new_message

from cometmq.cli.store.commands import store
from cometmq.store import MessageStore


def test_salvage_says_what_is_there_and_what_is_lost(tmp_path: Path) -> None:
    source = tmp_path / "old"
    with MessageStore.open(source, SMALL) as opened:
        appended = opened.append([new_message(body=b"%d" % n * 50) for n in range(100)])
    log = source / "commitlog" / "0".zfill(20)
    data = bytearray(log.read_bytes())
    data[appended[3].physical_offset + 95] ^= 1
    log.write_bytes(data)
    shown = CliRunner().invoke(store, ["salvage", str(source), "--to", str(tmp_path / "new")])
    assert shown.exit_code == 0, shown.output
    assert (
        f"lost: {log}, byte {appended[3].physical_offset}, {appended[3].size} bytes: BODYCRC" in shown.output
    )
    assert "lost: Orders-0, queue offsets 3 to 3" in shown.output and "99 messages" in shown.output
    as_json = CliRunner().invoke(store, ["salvage", str(source), "--to", str(tmp_path / "other"), "--json"])
    fields = json.loads(as_json.output)
    assert (fields["messages"], len(fields["lost"]), fields["gaps"][0]["first"]) == (99, 1, 3)


def test_salvage_into_the_store_itself_is_a_wrong_value(cometmq: Run, tmp_path: Path) -> None:
    source = tmp_path / "old"
    MessageStore.open(source, SMALL).close()
    ran = cometmq("store", "salvage", str(source), "--to", str(source / "new"))
    assert ran.failed(
        2, str(source / "new"), f"the old store {source},", "give a new directory outside of it"
    )
    assert not (source / "new").exists()
