"""Nothing but regular files is opened: whatever else is there is named, and nobody waits for it."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from cometmq.io.files import Disk
from cometmq.io.regular import NotRegularFile, regular_stat

ZERO = Path("/dev/zero")


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))  # an address has 107 bytes at most


def make_link_to_fifo(path: Path) -> None:
    os.mkfifo(path.with_name("fifo"))
    path.symlink_to("fifo")


OTHERS: list[tuple[Callable[[Path], object], str]] = [
    (Path.mkdir, "a directory"),
    (os.mkfifo, "a FIFO"),
    (make_socket, "a socket"),
    (make_link_to_fifo, "a link to a FIFO"),
    (lambda path: path.symlink_to(ZERO), "a link to a character device"),
    (lambda path: path.symlink_to("/"), "a link to a directory"),
]


@pytest.mark.parametrize("use", ["open", "write", "load", "size", "lock", "lock_holder"])
@pytest.mark.parametrize(("make", "kind"), OTHERS, ids=[kind for _, kind in OTHERS])
def test_what_is_no_regular_file_is_refused_by_what_it_is(
    tmp_path: Path, make: Callable[[Path], object], kind: str, use: str
) -> None:
    disk, path = Disk(), tmp_path / "a"
    make(path)
    uses: dict[str, Callable[[Path], object]] = {
        "open": lambda path: disk.open(path, writable=False),
        "write": lambda path: disk.open(path, writable=True),
        "load": disk.load,
        "size": disk.size,
        "lock": disk.lock,
        "lock_holder": disk.lock_holder,
    }
    with pytest.raises(NotRegularFile) as caught:
        uses[use](path)
    assert (caught.value.filename, caught.value.strerror) == (str(path), f"is {kind}, not a regular file")


def test_a_device_is_refused_without_a_link_too() -> None:
    with pytest.raises(NotRegularFile, match="is a character device"):
        regular_stat(ZERO)


def test_a_link_to_a_regular_file_is_the_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    link = tmp_path / "b"
    link.symlink_to("a")
    assert Disk().load(link) == b"content" and Disk().size(link) == regular_stat(link).st_size == 7
    file = Disk().open(link, writable=False)
    assert file.read(0, 7) == b"content"
    file.close()
    token = Disk().lock(link)
    assert token is not None
    Disk().unlock(token)


def test_what_is_missing_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        regular_stat(tmp_path / "a")
