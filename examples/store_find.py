"""Find messages by key and by id.

::

    python examples/store_append.py && python examples/store_find.py [DIRECTORY]
"""

import sys

from cometmq.store import MessageStore

with MessageStore.open(sys.argv[1] if len(sys.argv) > 1 else "example-store") as store:
    for message in store.messages_by_key("orders", "42"):
        print(f"key 42: {message.body!r}, id {message.message_id}")

        by_id = store.message_by_id(message.message_id)
        by_place = store.message_by_id(message.offset_id)
        print("found again by both its ids:", by_id == by_place == message)
