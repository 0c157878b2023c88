"""The lock on a store's file, within a process and between two."""

import os
import subprocess
import sys
from pathlib import Path

from cometmq.io.files import Disk


def test_a_lock_that_another_process_holds_is_refused(tmp_path: Path) -> None:
    token = Disk().lock(tmp_path / "lock")
    assert token is not None
    other = "import sys, pathlib as p, cometmq.io.files as f; print(f.Disk().lock(p.Path(sys.argv[1])))"
    result = subprocess.run(
        [sys.executable, "-c", other, tmp_path / "lock"], capture_output=True, text=True, check=True
    )
    assert result.stdout == "None\n"
    Disk().unlock(token)
    assert (tmp_path / "lock").read_bytes() == b"lock"


def test_a_lock_that_this_process_holds_is_refused_by_any_path_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    token = Disk().lock(path)
    assert token is not None
    (tmp_path / "other").symlink_to(tmp_path)
    assert Disk().lock(tmp_path / "other" / "lock") is None
    other = "import sys, pathlib as p, cometmq.io.files as f; print(f.Disk().lock(p.Path(sys.argv[1])))"
    result = subprocess.run([sys.executable, "-c", other, path], capture_output=True, text=True, check=True)
    assert result.stdout == "None\n"
    Disk().unlock(token)
    token = Disk().lock(path)
    assert token is not None
    Disk().unlock(token)


def test_the_holder_of_a_lock_is_told_without_taking_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert Disk().lock_holder(path) is None
    token = Disk().lock(path)
    assert token is not None
    script = (
        "import sys, pathlib, cometmq.io.files as f; print(f.Disk().lock_holder(pathlib.Path(sys.argv[1])))"
    )
    for _ in range(2):  # asking does not take it away
        seen = subprocess.run(
            [sys.executable, "-c", script, path], capture_output=True, text=True, check=True
        )
        assert int(seen.stdout) == os.getpid() == Disk().lock_holder(path)
    Disk().unlock(token)
    assert Disk().lock_holder(path) is None
