import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from cometmq.cli.demo import demo
from cometmq.cli.demo.demo import LOG, DemoSetup, broker, digest, errors_to, recreate_folder, run
from cometmq.cli.demo.report import DemoFailed
from cometmq.errors import SettingsError
from cometmq.net.address import free_port


def test_a_digest_tells_every_change_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1").write_bytes(b"one")
    (tmp_path / "2").write_bytes(b"two")
    before = digest(tmp_path)
    assert set(before) == {"a/1", "2"} and digest(tmp_path) == before
    for change in (b"One", b"one ", b""):
        (tmp_path / "a" / "1").write_bytes(change)
        assert digest(tmp_path) != before
    (tmp_path / "a" / "1").write_bytes(b"one")
    assert digest(tmp_path) == before
    (tmp_path / "2").rename(tmp_path / "3")
    assert digest(tmp_path) != before


def test_only_what_a_demo_made_is_made_anew(tmp_path: Path) -> None:
    own = tmp_path / "new" / "demo"
    recreate_folder(own)
    (own / "store").mkdir()
    (own / "store" / "old").touch()
    recreate_folder(own)
    assert [path.name for path in own.iterdir()] == [LOG]
    precious = tmp_path / "precious"
    precious.mkdir()
    recreate_folder(precious)
    (precious / LOG).unlink()
    (precious / "thesis").touch()
    with pytest.raises(SettingsError, match="precious has files of other origin"):
        recreate_folder(precious)
    assert (precious / "thesis").exists()


def test_a_command_that_fails_is_told_with_what_it_said() -> None:
    run(sys.executable, "-c", "print('fine')")
    with pytest.raises(DemoFailed, match="out of paper"):
        run(sys.executable, "-c", "raise SystemExit('out of paper')")


def test_what_others_say_on_standard_error_goes_to_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / LOG
    with errors_to(log):
        subprocess.run([sys.executable, "-c", "import sys; print('noise', file=sys.stderr)"], check=True)
    subprocess.run([sys.executable, "-c", "import sys; print('heard', file=sys.stderr)"], check=True)
    assert log.read_text() == "noise\n" and capfd.readouterr().err == "heard\n"


def test_a_broker_is_up_inside_the_block_and_gone_behind_it(tmp_path: Path) -> None:
    setup = DemoSetup(tmp_path, free_port(), free_port())
    with broker(setup) as process:
        assert process.poll() is None and (setup.store / "abort").exists()
    assert process.returncode == 0 and not (setup.store / "abort").exists()
    assert "serves at" in setup.log.read_text()
    with pytest.raises(DemoFailed, match="in the middle"), broker(setup) as process:
        raise DemoFailed("in the middle")
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("raise SystemExit(3)", "FAILED: the broker did not start. See "),
        ("print('steady')", "FAILED: the broker did not start. See "),
    ],
)
def test_a_demo_that_fails_says_so_and_exits_with_1(
    cometmq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    monkeypatch.setattr(demo, "COMMAND", (sys.executable, "-c", script))
    monkeypatch.setattr(demo, "COMPILE", (sys.executable, "-c", ""))
    before = signal.getsignal(signal.SIGTERM)
    ran = cometmq("demo", "--directory", str(tmp_path))
    signal.signal(signal.SIGTERM, before)
    assert ran.code == 1 and ran.err.startswith(words) and LOG in ran.err
    assert "All checks passed" not in ran.out


def test_a_demo_says_at_once_what_it_cannot_do(
    cometmq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "precious").touch()
    before = signal.getsignal(signal.SIGTERM)
    assert cometmq("demo", "--directory", str(tmp_path)).failed(2, "--directory")
    monkeypatch.setitem(sys.modules, "cometmq.spark.java", None)
    assert cometmq("demo", "--directory", str(tmp_path / "new")).failed(2, "pip install 'cometmq[spark,jre]'")
    signal.signal(signal.SIGTERM, before)
    assert not (tmp_path / "new").exists()


def test_who_ends_the_demo_ends_its_broker(tmp_path: Path) -> None:
    """What the demo starts would otherwise live on."""
    script = f"""
import signal, sys
from cometmq.cli.demo import demo
demo.COMPILE = (sys.executable, "-c", "")
demo.PATIENCE_S = 600  # a slow machine is no fault of the demo
async def send_and_consume(_):
    print("sending", flush=True)
    signal.pause()
demo.send_and_consume = send_and_consume
from cometmq.cli.main import main
main(["demo", "--directory", {str(tmp_path / "d")!r}])
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        while "sending" not in (line := process.stdout.readline()):
            assert line, "it ended"
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM
    assert (tmp_path / "d" / "store" / "checkpoint").exists()
    assert not (tmp_path / "d" / "store" / "abort").exists()
