"""One consumer of the campaign as a process: writes a row for each message that it handles.

Arguments: name server, group, topic, SQLite file, "transaction" or "mark": whether the row is written in one
transaction with the message's mark, or by itself before it. SIGTERM lets it leave.
"""

import asyncio
import logging
import signal
import sqlite3
import sys
from contextlib import closing
from typing import Final

from cometmq import Consumer, Deduplicator, Start, StoredMessage

LEASE_MS: Final = 1_000
INSERT: Final = "INSERT INTO effects VALUES (?)"


async def main(name_server: str, group: str, topic: str, path: str, way: str) -> None:
    logging.disable(logging.WARNING)  # killed members are what this is about
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
    with Deduplicator(path, lease_ms=LEASE_MS) as deduplicator:
        consumer = Consumer(name_server, group, start=Start.FIRST, deduplicator=deduplicator)

        @consumer.on(topic, idempotent_by="keys")
        def handle(message: StoredMessage) -> None:
            if way == "transaction":
                with deduplicator.transaction(message) as connection:
                    connection.execute(INSERT, message.keys)
            else:
                with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
                    connection.execute(INSERT, message.keys)

        async with consumer:
            await leave.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
