import logging
import os
import re
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cometmq import kernels
from cometmq.kernels import loading, plain
from cometmq.kernels.compiling import cache, places

STALE = "building-stale"
SECONDS_MAX = 60
"""Of anything here, on a busy machine."""
BEGIN = """if True:
    import logging, sys
    from cometmq import kernels
    from cometmq.kernels import plain
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stdout)
"""


def run(program: str, **environment: str) -> str:
    """Run a program in a process of its own, which has loaded nothing yet; give what it writes."""
    answer = subprocess.run(
        [sys.executable, "-c", BEGIN + program],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=SECONDS_MAX,
    )
    return answer.stdout


@pytest.fixture
def cold_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an empty directory as the cache, for this process and those it starts."""
    monkeypatch.delenv(places.SETTING, raising=False)
    monkeypatch.setenv(places.NUMBA_SETTING, str(tmp_path))
    return tmp_path


def wait_until_it_compiles(loading: kernels.Loading, directory: Path) -> subprocess.Popen[bytes]:
    while not set(directory.glob("building-*")) - {directory / STALE}:
        assert not loading.wait(0.01)
    assert loading._child is not None
    return loading._child


@pytest.mark.usefixtures("compiled")
def test_loads_in_the_background_and_tells_so() -> None:
    written = run("""
    import threading
    loaded = threading.Event()
    assert kernels.serving() == "plain"
    loading = kernels.load_in_background(loaded.set)
    assert kernels.loading.ops is plain and kernels.serving() == "plain, loading"
    assert loaded.wait(60) and loading.wait(60)
    assert kernels.loading.ops is not plain and kernels.serving() == "compiled"
    assert kernels.loading.ops.crc32(b"123456789") == 0xCBF43926
    loading.stop()
    """)
    assert written == f"INFO the kernels are loaded from {cache.find()}\n"


@pytest.mark.usefixtures("compiled")
def test_loads_once() -> None:
    assert kernels.load() is kernels.load() is kernels.loading.ops


def test_without_numba_the_plain_operations_stay_which_is_said_once() -> None:
    written = run("""
    sys.modules["numba"] = None
    loading = kernels.load_in_background(lambda: print("loaded"))
    assert loading.wait(60)
    assert kernels.loading.ops is plain and kernels.load_if_possible() is plain
    kernels.load_for(2**62)
    assert kernels.serving() == "plain: numba is not installed"
    """)
    assert written == f"WARNING {loading.NO_NUMBA}\n"
    assert "pip install 'cometmq[fast]'" in written


def test_without_a_place_for_the_cache_the_plain_operations_stay() -> None:
    written = run(
        """
    loading = kernels.load_in_background(lambda: print("loaded"))
    assert loading.wait(60)
    assert kernels.loading.ops is plain
    print(kernels.serving())
    """,
        NUMBA_CACHE_DIR=os.devnull,
    )
    told, serving = written.splitlines()
    assert told.startswith("WARNING the kernels cannot be loaded, the slower plain operations are used")
    assert "set COMETMQ_KERNELS_CACHE" in told
    assert serving.startswith("plain: OSError(") and "set COMETMQ_KERNELS_CACHE" in serving


@pytest.mark.usefixtures("compiled")
def test_a_failing_child_leaves_the_plain_operations(
    cold_cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "executable", "false")
    monkeypatch.setattr(loading, "ops", plain)
    assert kernels.load_in_background().wait(SECONDS_MAX)
    assert kernels.loading.ops is plain
    assert "the compiling process ended with code 1" in caplog.text
    assert list(cold_cache.iterdir()) == []


@pytest.mark.usefixtures("compiled")
def test_stopping_ends_the_child_and_leaves_nothing(
    cold_cache: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(loading, "ops", plain)
    (cold_cache / STALE).mkdir()  # as of one that was killed
    under_way = kernels.load_in_background()
    child = wait_until_it_compiles(under_way, cold_cache)
    shown = kernels.serving()
    under_way.stop()
    assert re.fullmatch(rf"plain, compiling \d+ of {cache.read_sources().kernel_count}", shown)
    assert child.returncode is not None
    assert under_way.wait(0)
    assert list(cold_cache.iterdir()) == []
    assert caplog.text == ""


@pytest.mark.usefixtures("compiled")
def test_stopping_at_once_or_twice_is_fine(cold_cache: Path) -> None:
    under_way = kernels.load_in_background()
    under_way.stop()
    under_way.stop()
    assert list(cold_cache.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="watches a process that is not its child")
@pytest.mark.usefixtures("compiled")
def test_the_child_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    program = """
    loading = kernels.load_in_background()
    from pathlib import Path
    import os
    while not list(Path(os.environ["NUMBA_CACHE_DIR"]).glob("building-*")):
        assert not loading.wait(0.01)
    print(loading._child.pid, flush=True)
    loading.wait()
    """
    parent = subprocess.Popen(
        [sys.executable, "-c", BEGIN + program],
        env=os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    parent.stdout.readline()  # that it compiles
    child = os.pidfd_open(int(parent.stdout.readline()))
    try:
        parent.send_signal(signal.SIGKILL)
        parent.wait(SECONDS_MAX)
        parent.stdout.close()
        assert select.select([child], [], [], SECONDS_MAX)[0], "the child still runs"
    finally:
        os.close(child)
    assert not list(tmp_path.glob("cometmq-*")), "what is not complete is taken for a cache"


@pytest.mark.usefixtures("compiled")
def test_other_threads_go_on_while_it_loads() -> None:
    """Holds no thread up for long: how long is a matter of the machine, so this only looks for a stall.

    In the time of this process alone, and beside what loading takes in all: others may hold it up, too.
    """
    written = run("""
    import threading, time
    began = time.process_time()
    loading = kernels.load_in_background()
    longest, before = 0.0, time.process_time()
    while not loading.wait(0.0005):
        now = time.process_time()
        longest, before = max(longest, now - before), now
    print(longest < 0.5 * (time.process_time() - began))
    """)
    assert written.endswith("True\n")


@pytest.mark.usefixtures("compiled")
def test_a_job_loads_them_only_if_it_is_large_enough() -> None:
    written = run("""
    from cometmq.kernels import loading
    kernels.load_for(loading.WORTH_LOADING_BYTES - 1)
    print(kernels.loading.ops is plain)
    kernels.load_for(loading.WORTH_LOADING_BYTES)
    print(kernels.loading.ops is plain)
    """)
    assert written == "True\nFalse\n"


def test_a_job_goes_on_with_the_plain_ones_if_they_cannot_be_loaded() -> None:
    written = run("""
    sys.modules["numba"] = None
    kernels.load_for(2**62)
    assert kernels.loading.ops is plain
    """)
    assert written == f"WARNING {loading.NO_NUMBA}\n"


@pytest.mark.usefixtures("cold_cache")
def test_a_job_that_would_not_pay_for_compiling_does_not_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "ops", plain)
    kernels.load_for(loading.WORTH_COMPILING_BYTES - 1)
    assert kernels.loading.ops is plain
