"""A store on a full tmpfs: what ``test_full_tmpfs.py`` runs in a process and a mount namespace of its own.

usage: full_tmpfs.py MOUNT_POINT. Prints what came of each step, and ends with a traceback if one fails.
"""

import sys
from pathlib import Path

from cometmq.errors import CometMQError, StoreNotWritable
from cometmq.format import layout
from cometmq.message import Message
from cometmq.store import FlushDiskType, MessageStore, StoreSettings
from cometmq.store.directory import StoreDirectory
from cometmq.store.inspect import summarize
from cometmq.store.inspect.status import status_of
from cometmq.store.recovery.rebuild import rebuild
from cometmq.store.verify import verify

SETTINGS = StoreSettings(
    mapped_file_size_commit_log=1 << 20,
    mapped_file_size_consume_queue=20 * 10_000,
    max_hash_slot_num=50_000,
    max_index_num=200_000,
    flush_disk_type=FlushDiskType.SYNC_FLUSH,
)
FILLER = "filler"


def send(store: MessageStore, count: int) -> int:
    """Send until the disk is full; return how many messages were stored."""
    for number in range(count):
        try:
            store.append_message(Message("Orders", bytes(3_000), keys=(f"k{number}",)), number % 4)
        except StoreNotWritable as error:
            print("full:", error)
            return number
    raise AssertionError("the disk did not fill up")


def fill(root: Path) -> None:
    """Use up what space is left."""
    with (root / FILLER).open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            print("filled:", error.strerror)


def look(root: Path, count: int) -> None:
    """Use everything that only reads."""
    found = verify(root, SETTINGS)
    print("verified:", found.messages == count, found.state.name)
    with StoreDirectory(root, SETTINGS) as store:
        print("summarized:", sum(line.messages for line in summarize(store).topics) <= count)
        print("status:", status_of(store).last_time > 0)


def open_and_read(root: Path, count: int) -> None:
    """Open the store, read all and find a message by its key."""
    with MessageStore.open(root, SETTINGS) as store:
        read = sum(1 for queue_id in range(4) for _ in store.messages("Orders", queue_id))
        print("read:", read == count, len(store.messages_by_key("Orders", "k7")))


def main(mount: Path) -> None:
    """Fill the tmpfs, look at the store, open it while it is full, and when there is space again."""
    root = mount / "store"
    (mount / FILLER).write_bytes(bytes(2 << 20))
    store = MessageStore.open(root, SETTINGS)
    count = send(store, 10_000)
    store.close()
    layout.abort_path(root).touch()  # empty: takes no space
    fill(mount)
    used = sum(path.stat().st_blocks for path in root.rglob("*"))
    look(root, count)
    print("grown by reading:", sum(path.stat().st_blocks for path in root.rglob("*")) - used)
    try:
        open_and_read(root, count)
    except CometMQError as error:
        print("refused:", error)
    (mount / FILLER).unlink()
    look(root, count)
    open_and_read(root, count)
    print("rebuilt:", rebuild(root, SETTINGS).messages == count)
    open_and_read(root, count)


main(Path(sys.argv[1]))
