import logging
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Terminal

from cometmq.cli.store.options import load_settings, progress_bar, size_text
from cometmq.errors import SettingsError
from cometmq.io.clock import ManualClock
from cometmq.store.files.spread import spread_of


def test_settings_come_from_either_kind_of_file_and_others_are_no_matter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    conf, toml = tmp_path / "broker.conf", tmp_path / "broker.toml"
    conf.write_text("mappedFileSizeCommitLog = 1048576\nfileReservedTime=48\n")
    toml.write_text("maxHashSlotNum = 1000\n")
    with caplog.at_level(logging.INFO):
        settings = [load_settings(path) for path in (conf, toml)]
    assert settings[0] is not None and settings[0].mapped_file_size_commit_log == 1_048_576
    assert settings[1] is not None and settings[1].max_hash_slot_num == 1_000
    assert load_settings(None) is None
    assert caplog.records == []
    with pytest.raises(SettingsError, match="cannot be read"):
        load_settings(tmp_path / "nowhere")


def test_a_copy_of_a_store_is_not_opened_with_the_log_of_the_original(tmp_path: Path) -> None:
    root, copy, conf = tmp_path / "store", tmp_path / "copy", tmp_path / "broker.conf"
    usual = f"storePathRootDir={root}\nstorePathCommitLog={root}/commitlog\n"
    conf.write_text(usual)
    for store in (root, copy):
        settings = load_settings(conf, store)
        assert settings is not None
        assert spread_of(store, settings).directories == (store / "commitlog",)
    for setting in (f"storePathCommitLog={tmp_path}/a,{tmp_path}/b", "readOnlyCommitLogStorePaths=/old"):
        conf.write_text(usual + setting)
        assert load_settings(conf, root) is not None
        with pytest.raises(SettingsError, match=f"is that of the store {root}, .*is {copy}, and whose"):
            load_settings(conf, copy)
    conf.write_text(f"storePathCommitLog={tmp_path}/a")
    assert load_settings(conf, copy) is not None
    with pytest.raises(SettingsError, match="2 are given: give them one by one"):
        load_settings(conf, copy, root)


def test_a_person_sees_how_far_the_work_is(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    with progress_bar("checking", as_json=False) as progress:
        progress(5 << 20, 10 << 20)
    assert "checking" in terminal.getvalue() and "10.0" in terminal.getvalue()


@pytest.mark.parametrize("as_json", [False, True])
def test_a_log_gets_lines_on_standard_error_when_it_takes_long(
    capsys: pytest.CaptureFixture[str], *, as_json: bool
) -> None:
    clock = ManualClock()
    with progress_bar("checking", as_json=as_json, clock=clock) as progress:
        progress(1 << 20, 10 << 20)
        clock.advance(2_500)
        progress(4 << 20, 10 << 20)
    assert capsys.readouterr() == ("", "checking: 40 % of 10 MiB, 00:02\n")


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (1_023, "1023 bytes"), (1_536, "1.5 KiB"), (1 << 30, "1.0 GiB"), (5 << 40, "5.0 TiB")],
)
def test_sizes_are_written_as_people_read_them(size: int, text: str) -> None:
    assert size_text(size) == text
