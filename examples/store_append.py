"""Append messages to a store, one by one and many at a time, and wait for the disk.

::

    python examples/store_append.py [DIRECTORY]
"""

import sys

from cometmq.store import Message, MessageStore

with MessageStore.open(sys.argv[1] if len(sys.argv) > 1 else "example-store") as store:
    receipt = store.append_message(Message("orders", b"first", tags="new", keys=("42",)))
    print(f"id {receipt.message_id}, queue {receipt.queue_id}, queue offset {receipt.queue_offset}")

    store.append_messages(Message("orders", b"order %d" % n, tags="paid") for n in range(10_000))
    store.wait_flushed().result()
    print(f"on the disk up to offset {store.flushed_offset} of {store.written_offset}")
