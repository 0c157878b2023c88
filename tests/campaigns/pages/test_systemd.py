"""What stands in for systemd: it hears of a service, and sees how it ends."""

import sys
from pathlib import Path

import pytest
from tests.campaigns.pages.systemd import Systemd, parse

UNIT = """
# A comment with = in it.
[Unit]
After=network-online.target first.service
[Service]
Environment=PART=one=two
EnvironmentFile=-{folder}/options
WorkingDirectory={folder}
ExecStart={python} {folder}/service.py $STATUS
UMask=0077
"""
SERVICE = """
import os, signal, socket, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
    sender.sendto(b"READY=1\\nSTATUS=here", os.environ["NOTIFY_SOCKET"])
print("ready: here", os.environ["PART"], flush=True)
signal.sigwait({signal.SIGTERM})
sys.exit(int(sys.argv[1]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    (tmp_path / "service.py").write_text(SERVICE)
    (tmp_path / "options").write_text("STATUS=0\n")
    return tmp_path


@pytest.fixture
def systemd(folder: Path) -> Systemd:
    return Systemd(folder, lambda _: UNIT.format(folder=folder, python=sys.executable))


def test_the_text_of_a_unit_is_understood(folder: Path) -> None:
    unit = parse(UNIT.format(folder=folder, python="python"))
    assert unit.command == f"python {folder}/service.py $STATUS"
    assert (unit.variables, unit.files) == ({"PART": "one=two"}, [folder / "options"])
    assert (unit.folder, unit.umask, unit.after) == (folder, 0o077, ["network-online.target", "first"])


@pytest.mark.parametrize("is_notified", [True, False])
def test_a_service_is_started_when_it_says_so_and_stopped_by_a_signal(
    is_notified: bool, systemd: Systemd, folder: Path
) -> None:
    systemd.is_notified = is_notified
    with systemd:
        systemd.do("systemctl enable --now service")
        systemd.do("systemctl restart service")
        systemd.do("systemctl stop service")
    assert (folder / "service.log").read_text() == "ready: here one=two\n"


def test_a_service_that_ends_with_an_error_is_told(systemd: Systemd, folder: Path) -> None:
    (folder / "options").write_text("STATUS=3\n")
    with systemd:
        systemd.start("service")
        with pytest.raises(AssertionError, match="service ended with 3:\nready: here"):
            systemd.stop("service")


def test_a_service_that_ends_before_it_is_ready_is_told(systemd: Systemd, folder: Path) -> None:
    (folder / "service.py").write_text("raise SystemExit('no disk')")
    with systemd, pytest.raises(AssertionError, match="service ended:\nno disk"):
        systemd.start("service")


def test_units_are_started_in_their_order_and_stopped_in_the_reverse(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    systemd = Systemd(
        folder, lambda name: f"After={'first' if name == 'second' else ''}.service\nExecStart=x"
    )
    done: list[str] = []
    monkeypatch.setattr(systemd, "start", lambda name: done.append(f"start {name}"))
    monkeypatch.setattr(systemd, "stop", lambda name: done.append(f"stop {name}"))
    systemd.do("systemctl restart second first")
    assert done == ["stop second", "stop first", "start first", "start second"]
