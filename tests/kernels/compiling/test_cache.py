import ast
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cometmq.kernels.compiling import cache, places
from cometmq.kernels.ops import Ops

WARM_READ = """if True:
    import sys
    from cometmq import kernels
    from cometmq.kernels.compiling import cache
    print(cache.find())
    print(kernels.load().crc32(b"123456789"))
"""


@pytest.fixture
def cache_parent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide an empty directory for the caches."""
    monkeypatch.delenv(places.SETTING, raising=False)
    monkeypatch.setenv(places.NUMBA_SETTING, str(tmp_path))
    return tmp_path


@pytest.fixture
def copied(compiled: Ops, tmp_path: Path) -> Path:  # noqa: ARG001  makes the cache warm
    """Copy the warm cache into a directory of its own, as an image has it: nobody may write there."""
    found = cache.find()
    assert found is not None
    target = tmp_path / "image"
    shutil.copytree(found, target / found.name)
    for path in (*target.rglob("*"), target):
        path.chmod(0o555 if path.is_dir() else 0o444)
    return target


def test_a_cache_that_was_loaded_from_is_warm(compiled: Ops) -> None:  # noqa: ARG001  loads
    assert cache.is_warm()


def test_a_cache_that_is_not_there_is_cold(cache_parent: Path) -> None:
    assert not cache.is_warm()
    assert list(cache_parent.iterdir()) == []


def test_a_directory_that_holds_all_kernels_is_a_warm_cache(cache_parent: Path) -> None:
    sources = cache.read_sources()
    (processor, *_) = cache._usable_processors()
    directory = cache_parent / cache._name(sources, processor)
    directory.mkdir()
    for number in range(sources.kernel_count):
        assert cache.find() is None
        (directory / f"{number}{places.SUFFIX}").touch()
    assert cache.find() == directory


def test_the_name_changes_with_what_the_machine_code_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "PACKAGE", tmp_path / "kernels")
    (tmp_path / "kernels" / "records").mkdir(parents=True)
    (tmp_path / "kernels" / "compiled.py").write_text("from cometmq.kernels.records.scan import scan\n")
    source = tmp_path / "kernels" / "records" / "scan.py"
    source.write_text("a = 1")
    digests = {cache.read_sources().digest}
    source.write_text("a = 2")
    digests.add(cache.read_sources().digest)
    for module in ("numba", "llvmlite", "numpy"):
        monkeypatch.setattr(importlib.import_module(module), "__version__", "0.0")
        digests.add(cache.read_sources().digest)
    monkeypatch.setattr(sys, "version_info", (3, 99, 0))
    digests.add(cache.read_sources().digest)
    assert len(digests) == 6


@pytest.mark.parametrize(
    "line",
    [
        "from cometmq.kernels.pulls.rows import ANSWER_END",
        "from cometmq.kernels.pulls import rows",
        "from cometmq.kernels.pulls import rows as r",
        "from cometmq.kernels.pulls import (\n    frames,\n    rows,\n)",
    ],
)
def test_the_name_changes_with_a_constant_however_kernels_import_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr(cache, "PACKAGE", tmp_path / "kernels")
    source = tmp_path / "kernels" / "pulls" / "rows.py"
    source.parent.mkdir(parents=True)
    (tmp_path / "kernels" / "compiled.py").write_text(f"{line}\n")
    source.write_text("ANSWER_END = 13")
    before = cache.read_sources().digest
    source.write_text("ANSWER_END = 14")
    assert cache.read_sources().digest != before


def test_the_name_does_not_change_with_times_and_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = cache.read_sources()
    for name in cache._sources():
        copy = tmp_path / f"{name}.py"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(cache.PACKAGE.parent / f"{name}.py", copy)
        os.utime(copy, (1, 1))
    monkeypatch.setattr(cache, "PACKAGE", tmp_path / "kernels")
    assert cache.read_sources() == here


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
    assert found <= cache._sources().keys()
    assert {"kernels/records/scan", "kernels/pulls/compiled", "format/record"} <= found


def test_caches_that_were_not_used_for_long_are_removed(cache_parent: Path) -> None:
    for age in range(10):
        directory = cache_parent / f"cometmq-{age}"
        directory.mkdir()
        os.utime(directory, (age, age))
    (cache_parent / "other").mkdir()
    cache._remove_old(cache_parent)
    left = sorted(path.name for path in cache_parent.iterdir())
    assert left == [*(f"cometmq-{age}" for age in range(2, 10)), "other"]


def test_what_is_loaded_is_not_compiled_again_for_another_cache(cache_parent: Path, compiled: Ops) -> None:
    assert cache.load_compiled() is compiled
    assert list(cache_parent.iterdir()) == []


def test_compiling_again_finds_it_done(compiled: Ops) -> None:  # noqa: ARG001  compiles if need be
    answer = subprocess.run(
        [sys.executable, "-m", "cometmq.kernels"], capture_output=True, text=True, check=True
    )
    assert answer.stderr == "the kernels are compiled already\n"


def run_without_home(program: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a program as in a container: with nothing in its environment but what is given."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(cache.PACKAGE.parents[1]), "PATH": os.environ["PATH"]} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_copied_cache_is_loaded_without_a_home_from_where_nothing_can_be_written(copied: Path) -> None:
    elsewhere = {places.NUMBA_SETTING: os.devnull}  # so that nothing else can be found or made
    ran = run_without_home(WARM_READ, **elsewhere, **{places.SETTING: str(copied)})
    assert ran.returncode == 0, ran.stderr
    directory, crc = ran.stdout.splitlines()
    assert Path(directory).parent == copied and int(crc) == 0xCBF43926


def test_a_cache_that_is_loaded_is_the_last_to_be_removed(copied: Path) -> None:
    (directory,) = copied.iterdir()
    os.utime(directory, (1, 1))
    run_without_home(WARM_READ, **{places.NUMBA_SETTING: os.devnull, places.SETTING: str(copied)})
    assert directory.stat().st_mtime > 1


def test_a_damaged_file_of_a_cache_is_named_with_the_remedy(copied: Path) -> None:
    path = next(copied.rglob(f"*{places.SUFFIX}"))
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    elsewhere = {places.NUMBA_SETTING: os.devnull}
    ran = run_without_home(WARM_READ, **elsewhere, **{places.SETTING: str(copied)})
    assert ran.returncode == 1
    assert f"{path} is damaged: remove {path.parent}" in ran.stderr


def test_a_cache_that_lacks_a_kernel_is_passed_over(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(places.NUMBA_SETTING, os.devnull)
    monkeypatch.setenv(places.SETTING, str(copied))
    found = cache.find()
    assert found is not None
    found.chmod(0o755)
    next(found.glob(f"*{places.SUFFIX}")).unlink()
    assert cache.find() is None


def test_kernels_for_all_processors_are_found_where_none_are_for_this_one(
    cache_parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine_code = importlib.import_module("cometmq.kernels.compiling.machine_code")
    this, portable = (machine_code.Processor(*each) for each in ("ab", "cd"))
    monkeypatch.setattr(cache, "_usable_processors", lambda: [this, portable])
    sources = cache.read_sources()
    for processor in (portable, this):
        directory = cache_parent / cache._name(sources, processor)
        directory.mkdir()
        for number in range(sources.kernel_count):
            (directory / f"{number}{places.SUFFIX}").touch()
        assert cache.find() == directory


def test_the_count_of_a_compilation_under_way_is_that_of_its_files(cache_parent: Path) -> None:
    assert cache.compiled_count(cache_parent) == 0
    directory = cache_parent / "building-1" / "cometmq-1"
    directory.mkdir(parents=True)
    for number in range(3):
        (directory / f"{number}{places.SUFFIX}").touch()
    assert cache.compiled_count(cache_parent) == 3


def test_what_is_compiled_for_a_copy_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one_kernel.py").write_text(
        "from cometmq.kernels.compiling.jit import kernel\n"
        "from cometmq.kernels.compiling.signatures import long, longs_in\n"
        "@kernel(long(longs_in))\n"
        "def first(array):\n"
        "    return array[0]\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(cache, "_COMPILED", "one_kernel")
    monkeypatch.setattr(cache, "read_sources", lambda: cache.Sources("digest", 1))
    processor = importlib.import_module("cometmq.kernels.compiling.machine_code").this_processor()
    made = cache.compile_into(tmp_path / "new" / "image", processor)
    assert made == tmp_path / "new" / "image" / cache._name(cache.read_sources(), processor)
    (path,) = made.iterdir()
    before = path.stat()
    assert cache.compile_into(tmp_path / "new" / "image", processor) == made
    assert path.stat() == before
    assert [each.name for each in made.parent.iterdir()] == [made.name]
    sys.modules.pop("one_kernel")
    monkeypatch.setenv(places.SETTING, str(made.parent))
    assert cache.load_compiled().first.stats.cache_hits.total() == 1
    sys.modules.pop("one_kernel")
