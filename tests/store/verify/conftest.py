from collections.abc import Callable
from pathlib import Path

import pytest
from tests.store.conftest import ROOT, SMALL, OpenStore, new_message

from cometmq.format import layout
from cometmq.io.clock import ManualClock
from cometmq.store.files.finding import Finding, Severity
from cometmq.store.verify import Verified, verify
from cometmq.testing.memory_disk import MemoryDisk

Damage = Callable[[Path, int, bytes], None]

MESSAGES = 60
FIRST_LOG = layout.commitlog_path(ROOT, 0)
FIRST_QUEUE = layout.consume_queue_path(ROOT, "Orders", 0, 0)
CHECKPOINT = layout.checkpoint_path(ROOT)
ABORT = layout.abort_path(ROOT)


@pytest.fixture
def sound(open_store: OpenStore, disk: MemoryDisk, clock: ManualClock) -> MemoryDisk:
    """A closed store of 60 messages: several files of each kind; entry 9 of the index is key x2."""
    store = open_store()
    for n in range(MESSAGES):
        tags = "paid" if n % 2 else None
        store.append([new_message(queue_id=n % 3, body=b"%03d" % n * 60, tags=tags, keys=f"k{n} x{n} y{n}")])
        clock.advance(700)
    store.close()
    return disk.after_kill()


def checked(disk: MemoryDisk) -> Verified:
    """What verify says of a disk; it must not change it."""
    before = {path: disk.load(path) for path in disk._files}
    verified = verify(ROOT, SMALL, layer=disk)
    assert {path: disk.load(path) for path in disk._files} == before
    return verified


def overwrite(disk: MemoryDisk, path: Path, position: int, data: bytes) -> None:
    """Change some bytes of a file."""
    disk.open(path, writable=True).write(position, data)


def flip(disk: MemoryDisk, path: Path, position: int, bit: int = 0) -> None:
    """Change one bit of a file."""
    overwrite(disk, path, position, bytes([disk.load(path)[position] ^ 1 << bit]))


def last_log(disk: MemoryDisk) -> Path:
    """The newest file of the CommitLog."""
    return max(path for path in disk._files if path.parent == FIRST_LOG.parent)


def damages(verified: Verified) -> list[Finding]:
    """The damage among the findings."""
    return [finding for finding in verified.findings if finding.severity is Severity.DAMAGE]
