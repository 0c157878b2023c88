import importlib
import pickle
import platform
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("compiled")


def doubled(directory: Path, *, is_complete: bool) -> Any:
    """Compile a kernel, or load it."""
    jit, machine_code, signatures = (
        importlib.import_module(f"cometmq.kernels.compiling.{name}")
        for name in ("jit", "machine_code", "signatures")
    )

    with machine_code.kept_in(directory, is_complete=is_complete):

        @jit.kernel(signatures.long(signatures.longs_in))  # type: ignore[untyped-decorator]  # imported by name
        def twice(array: Any) -> Any:
            return array[0] * 2

    return twice


def test_a_kernel_that_was_compiled_is_loaded_from_its_file(tmp_path: Path) -> None:
    array = np.array([21], np.int64)
    assert doubled(tmp_path / "kept", is_complete=False)(array) == 42
    (path,) = (tmp_path / "kept").iterdir()
    path.chmod(0o444)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / path.name).write_bytes(path.read_bytes())
    loaded = doubled(copy, is_complete=True)
    assert loaded(array) == 42
    assert (loaded.stats.cache_hits.total(), loaded.stats.cache_misses.total()) == (1, 0)


def test_where_all_are_said_to_be_none_is_compiled(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        doubled(tmp_path, is_complete=True)


@pytest.mark.parametrize("damaged", [b"", b"short", bytes(32) + pickle.dumps(())])
def test_a_damaged_file_is_not_run(tmp_path: Path, damaged: bytes) -> None:
    doubled(tmp_path, is_complete=False)
    (path,) = tmp_path.iterdir()
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match=f"is damaged: remove {tmp_path}"):
        doubled(tmp_path, is_complete=True)


def test_without_a_directory_nothing_is_written(tmp_path: Path) -> None:
    jit, signatures = (
        importlib.import_module(f"cometmq.kernels.compiling.{name}") for name in ("jit", "signatures")
    )

    @jit.kernel(signatures.long(signatures.longs_in))  # type: ignore[untyped-decorator]  # imported by name
    def first(array: Any) -> Any:
        return array[0]

    assert first(np.array([3], np.int64)) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_processor_s_digest_is_of_name_and_features() -> None:
    processor = importlib.import_module("cometmq.kernels.compiling.machine_code").Processor
    digests = {processor(*each).digest for each in (("a", "+b"), ("a", "+c"), ("b", "+b"))}
    assert len(digests) == 3
    assert processor("a", "+b").digest in digests


def test_numba_s_settings_choose_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_code = importlib.import_module("cometmq.kernels.compiling.machine_code")
    own = machine_code.this_processor()
    with machine_code.compiling_for(machine_code.Processor("generic", "+x")):
        assert machine_code.this_processor() == ("generic", "+x")
    assert machine_code.this_processor() == own
    monkeypatch.setattr(machine_code.binding, "get_host_cpu_name", lambda: "other")
    assert machine_code.this_processor().name == (machine_code.config.CPU_NAME or "other")


def test_portable_code_is_for_machines_that_have_all_it_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    machine_code = importlib.import_module("cometmq.kernels.compiling.machine_code")
    portable = machine_code.PORTABLE[platform.machine()]
    every = {feature.removeprefix("+"): True for feature in portable.features.split(",")}
    monkeypatch.setattr(machine_code.binding, "get_host_cpu_features", lambda: every)
    assert machine_code.portable_processor() == portable
    last = next(iter(every))
    monkeypatch.setattr(machine_code.binding, "get_host_cpu_features", lambda: every | {last: False})
    assert machine_code.portable_processor() is None
    monkeypatch.setattr(machine_code, "PORTABLE", {})
    assert machine_code.portable_processor() is None
