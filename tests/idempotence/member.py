"""One consumer of the campaign as a process: writes a row for each message that it handles.

Arguments: name server, group, topic, SQLite file, a file for a line about each message that comes, and
"transaction" or "mark": whether the row is written in one transaction with the message's mark, or by itself
before it. With "transaction", the broker is asked to send some messages again after their effect, as if it
had not heard that they were handled. SIGTERM lets it leave.
"""

import asyncio
import logging
import os
import signal
import sqlite3
import sys
from contextlib import closing
from typing import Final

from cometmq import Consumer, Deduplicator, Retry, Start, StoredMessage

LEASE_MS: Final = 1_000
RESENT: Final = 10
"""Each such message is sent again by the broker."""
INSERT: Final = "INSERT INTO effects VALUES (?)"


async def main(name_server: str, group: str, topic: str, path: str, came: str, way: str) -> None:
    logging.disable(logging.WARNING)  # killed members are what this is about
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
    log = os.open(came, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def key(message: StoredMessage) -> str:
        line = (
            f"{message.body.decode()} {message.queue_id} {message.queue_offset} {message.reconsume_times}\n"
        )
        os.write(log, line.encode())  # whole, also if this is killed
        return message.keys[0]

    with Deduplicator(path, lease_ms=LEASE_MS) as deduplicator:
        consumer = Consumer(name_server, group, start=Start.FIRST, deduplicator=deduplicator)

        @consumer.on(topic, idempotent_by=key)
        def handle(message: StoredMessage) -> None:
            if way == "transaction":
                with deduplicator.transaction(message) as connection:
                    connection.execute(INSERT, message.keys)
                if int(message.body) % RESENT == 1 and message.reconsume_times == 0:
                    raise Retry(delay_level=1)
            else:
                with closing(sqlite3.connect(path, timeout=30)) as connection, connection:
                    connection.execute(INSERT, message.keys)

        async with consumer:
            await leave.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
