import shutil
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from cometmq import kernels
from cometmq.kernels.compiling import cache, machine_code, places


@pytest.fixture(scope="module")
def warm() -> Path:
    """Compile the kernels, if that has not been done, and give their directory."""
    kernels.load()
    found = cache.find()
    assert found is not None
    return found


def test_kernels_that_are_there_are_not_compiled_again(cometmq: Run, warm: Path) -> None:
    ran = cometmq("kernels")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(f"{warm}: {cache.read_sources().kernel_count} kernels, ")
    ((value),) = cometmq("kernels", "--json").values
    assert value["path"] == str(warm)


def test_a_folder_that_is_made_for_copying_says_how_it_is_found(
    cometmq: Run, warm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_code, "portable_processor", machine_code.this_processor)
    output = tmp_path / "image"
    shutil.copytree(warm, output / warm.name)  # or else this would take a minute
    for arguments in ((), ("--native",)):
        ran = cometmq("kernels", "--output", str(output), *arguments)
        first, second = ran.out.splitlines()
        assert first.startswith(f"{output / warm.name}: ")
        assert second == f"set {places.SETTING}={output} to use them, or the path of a copy"


def test_portable_code_is_refused_where_it_would_not_run(
    cometmq: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_code, "portable_processor", lambda: None)
    assert cometmq("kernels", "--output", str(tmp_path)).failed(2, "--native")
    assert cometmq("kernels", "--native").failed(2, "--output")


def test_without_numba_it_says_what_to_install(cometmq: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    assert cometmq("kernels").failed(2, "numba", "pip install 'cometmq[fast]'")
