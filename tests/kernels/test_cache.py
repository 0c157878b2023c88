import ast
import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cometmq.kernels import cache
from cometmq.kernels.ops import Ops


@pytest.fixture
def cache_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let an empty directory hold the caches."""
    monkeypatch.setattr(importlib.import_module("numba.core.config"), "CACHE_DIR", str(tmp_path))
    return tmp_path


def test_a_cache_that_was_loaded_from_is_warm(compiled: Ops) -> None:  # noqa: ARG001  loads
    assert cache.is_warm()


def test_a_cache_that_is_not_there_is_cold(cache_parent: Path) -> None:
    assert not cache.is_warm()
    assert list(cache_parent.iterdir()) == []


def test_a_directory_of_its_name_is_a_warm_cache(cache_parent: Path) -> None:
    directory = cache._directory()
    directory.mkdir()
    assert directory.parent == cache_parent
    assert cache.is_warm()


def test_the_name_changes_with_what_the_machine_code_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "PACKAGE", tmp_path / "kernels")
    for name in cache.SOURCES:
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text("a = 1")
    source = tmp_path / "kernels" / "scan.py"
    names = {cache._digest()}
    source.write_text("a = 2")
    names.add(cache._digest())
    os.utime(source, (1, 1))
    names.add(cache._digest())
    monkeypatch.setattr(importlib.import_module("numba"), "__version__", "0.0")
    names.add(cache._digest())
    assert len(names) == 4


def test_the_sources_are_all_that_the_compiled_operations_import() -> None:
    package = cache.PACKAGE.parent
    found: set[str] = set()
    waiting = {"kernels/compiled"}
    while waiting:
        name = waiting.pop()
        found.add(name)
        for node in ast.parse((package / f"{name}.py").read_text()).body:
            if isinstance(node, ast.ImportFrom):
                path = str(node.module).removeprefix("cometmq.").replace(".", "/")
                for imported in (path, *(f"{path}/{each.name}" for each in node.names)):
                    if path.startswith(("format", "kernels")) and (package / f"{imported}.py").exists():
                        waiting |= {imported} - found
    assert found == set(cache.SOURCES)


def test_old_caches_are_forgotten(cache_parent: Path) -> None:
    for age in range(6):
        directory = cache_parent / f"cometmq-{age}"
        directory.mkdir()
        os.utime(directory, (age, age))
    (cache_parent / "other").mkdir()
    cache._forget_old(cache_parent)
    left = sorted(path.name for path in cache_parent.iterdir())
    assert left == ["cometmq-2", "cometmq-3", "cometmq-4", "cometmq-5", "other"]


def test_what_is_loaded_is_not_compiled_again_for_another_cache(cache_parent: Path, compiled: Ops) -> None:
    assert cache.load_compiled() is compiled
    assert list(cache_parent.iterdir()) == []


def test_the_user_has_a_cache_if_the_package_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "PACKAGE", Path(os.devnull))  # nobody can make a directory in it
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache._parent() == tmp_path / "cometmq"


def test_no_place_for_the_cache_is_an_error_that_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "PACKAGE", Path(os.devnull))
    monkeypatch.setenv("XDG_CACHE_HOME", os.devnull)
    with pytest.raises(OSError, match="set NUMBA_CACHE_DIR"):
        cache.is_warm()


def test_compiling_again_finds_it_done(compiled: Ops) -> None:  # noqa: ARG001  compiles if need be
    answer = subprocess.run(
        [sys.executable, "-m", "cometmq.kernels"], capture_output=True, text=True, check=True
    )
    assert answer.stderr == "the kernels are compiled already\n"
