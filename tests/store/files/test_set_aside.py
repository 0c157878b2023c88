"""What is taken out of a store keeps its bytes, and never takes the place of what is there already."""

from pathlib import Path

from cometmq.store.files.set_aside import copy_aside, move_aside
from cometmq.testing.memory_disk import MemoryDisk

ROOT = Path("/store")


def test_what_is_set_aside_twice_has_two_places() -> None:
    disk = MemoryDisk()
    path = ROOT / "index" / "20231114221320000"
    for content in (b"first", b"second"):
        disk.make_directory(path.parent)
        disk.save(path, content)
        assert disk.load(move_aside(disk, ROOT, path)) == content
        assert not disk.exists(path)
    copies = [copy_aside(disk, ROOT, "entries", content) for content in (b"1", b"2")]
    assert [disk.load(copy) for copy in copies] == [b"1", b"2"]
    assert disk.names(ROOT / "setaside") == [
        *("entries.0", "entries.1", "index-20231114221320000.0", "index-20231114221320000.1")
    ]
