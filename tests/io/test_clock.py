from pathlib import Path

import pytest

from cometmq.io import clock as clock_module
from cometmq.io.clock import ManualClock, SystemClock, boot_id


def test_the_system_clock_gives_milliseconds_that_do_not_go_back() -> None:
    clock = SystemClock()
    assert clock.now_ms() > 1_700_000_000_000
    assert clock.monotonic_ms() <= clock.monotonic_ms()


def test_a_manual_clock_moves_both_clocks_only_when_told() -> None:
    clock = ManualClock(1_000)
    clock.advance(5)
    assert (clock.now_ms(), clock.monotonic_ms()) == (1_005, 5)


def test_turning_the_wall_clock_leaves_intervals_alone() -> None:
    clock = ManualClock(1_000)
    clock.set_wall(7)
    assert (clock.now_ms(), clock.monotonic_ms()) == (7, 0)


def test_the_run_of_the_machine_has_a_name_where_the_system_tells_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert boot_id() == boot_id()
    monkeypatch.setattr(clock_module, "_BOOT_ID_PATH", tmp_path / "boot_id")
    assert boot_id() == ""
    (tmp_path / "boot_id").write_text("8d0c\n")
    assert boot_id() == "8d0c"
