"""A process that handles one message and is killed at a point: ``dies.py FILE POINT [later]``.

It fails if the message is being handled by another process.
"""

import asyncio
import os
import signal
import sqlite3
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from cometmq.client.handling.subscription import Subscription
from cometmq.client.idempotence import Deduplicator
from cometmq.io.clock import ManualClock
from cometmq.message import StoredMessage

MESSAGE = StoredMessage(
    "Orders", 0, 0, 0, "id", "offset", None, ("a",), {}, b"", 0, 0, 0, "127.0.0.1:1", 0, "127.0.0.1:2", 0, 0
)
LEASE_MS = 60_000


def main(path: str, point: str, *later: str) -> None:
    def die_at(here: str) -> None:
        if point == here:
            os.kill(os.getpid(), signal.SIGKILL)

    def handle(message: StoredMessage) -> None:
        if point == "before the mark":  # an effect of its own, as of one who uses no transaction
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("INSERT INTO effects VALUES ('a')")
            die_at("before the mark")
        with deduplicator.transaction(message) as connection:
            connection.execute("INSERT INTO effects VALUES ('a')")
            die_at("before the commit")
        die_at("after the commit")

    clock = ManualClock()
    clock.advance(LEASE_MS * len(later))
    with Deduplicator(path, lease_ms=LEASE_MS, clock=clock) as deduplicator, ThreadPoolExecutor(1) as pool:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE IF NOT EXISTS effects (key TEXT)")
        subscription = Subscription("Orders", handle, once=deduplicator.once("shop", "keys"))
        asyncio.run(subscription.handle([MESSAGE], pool))


if __name__ == "__main__":
    main(*sys.argv[1:])
