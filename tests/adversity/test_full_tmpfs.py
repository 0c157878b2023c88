"""A store on a full tmpfs: errors that name the remedy, though to read a hole through a map would kill."""

import subprocess
import sys
from pathlib import Path

import pytest

MOUNT = 'mount -t tmpfs -o size=8m tmpfs "$1" 2>/dev/null || exit 77; exec "$0" -m "$2" "$1"'
NOT_ALLOWED = 77


def test_a_store_on_a_full_tmpfs_is_read_and_refused_with_the_remedy_and_opens_with_space(
    tmp_path: Path,
) -> None:
    ended = subprocess.run(
        ["unshare", "--mount", "sh", "-c", MOUNT, sys.executable, tmp_path, "tests.adversity.full_tmpfs"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    if ended.returncode in (1, NOT_ALLOWED) and "Traceback" not in ended.stderr:
        pytest.skip("a tmpfs of a few megabytes cannot be mounted by this user")
    assert ended.returncode == 0, f"{ended.returncode}: {ended.stdout}{ended.stderr}"
    lines = [line.partition(": ")[::2] for line in ended.stdout.splitlines()]
    said = dict(reversed(lines))
    assert "disk full" in said["full"] and "free some space" in said["full"]
    assert said["verified"].startswith("True") and said["summarized"] == said["status"] == "True"
    assert said["grown by reading"] == "0"
    if "refused" in said:
        assert "disk full" in said["refused"] and "free some space" in said["refused"]
    assert (said["read"], said["rebuilt"]) == ("True 1", "True")
    assert lines[-1] == ("read", "True 1")
