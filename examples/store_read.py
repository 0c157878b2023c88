"""Read a store: all queues, one queue from a place or a time on, only some tags.

::

    python examples/store_append.py && python examples/store_read.py [DIRECTORY]
"""

import sys
from datetime import UTC, datetime, timedelta

from cometmq.store import MessageStore

with MessageStore.open(sys.argv[1] if len(sys.argv) > 1 else "example-store") as store:
    for topic, queue_id in store.queues():
        first, end = store.min_queue_offset(topic, queue_id), store.max_queue_offset(topic, queue_id)
        print(f"{topic}, queue {queue_id}: queue offsets {first} to {end - 1}")

    print("new:", [message.body for message in store.messages("orders", tags="new")])

    a_day_ago = datetime.now(UTC) - timedelta(days=1)
    begin = store.offset_by_time("orders", 0, int(a_day_ago.timestamp() * 1000))
    print("since yesterday:", sum(1 for _ in store.messages("orders", begin=begin)))
