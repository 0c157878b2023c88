"""One consumer of the campaign as a process: writes a row for each message that it handles.

Arguments: name server, group, topic, SQLite file, a file for a line about each message that comes, and
"transaction" or "mark": whether the row is written in one transaction with the message's mark, or by itself
before it. With "transaction", the broker is asked to send some messages again after their effect, as if it
had not heard that they were handled. Some messages are slow, longer than a lease lasts, and hold back what
can be committed. SIGTERM lets it leave.
"""

import asyncio
import logging
import os
import signal
import sqlite3
import sys
import threading
from contextlib import closing
from typing import Final

from cometmq import Consumer, Deduplicator, Retry, Start, StoredMessage

LEASE_MS: Final = 1_000
RESENT: Final = 10
"""Each such message is sent again by the broker."""
SLOW: Final = 100
"""Each such message waits while many others are handled, if there are any."""
SLOWER_THAN: Final = 500
SLOW_S_MAX: Final = 3.0
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

    pace = Pace()
    with Deduplicator(path, lease_ms=LEASE_MS) as deduplicator:
        consumer = Consumer(name_server, group, start=Start.FIRST, deduplicator=deduplicator)

        @consumer.on(topic, idempotent_by=key)
        def handle(message: StoredMessage) -> None:
            pace.keep(slow=int(message.body) % SLOW == 0)
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


class Pace:
    """How many messages were handled, by the threads of all handlers."""

    def __init__(self) -> None:
        self._handled = 0
        self._more = threading.Condition()

    def keep(self, *, slow: bool) -> None:
        """Count a message; wait with a slow one until many others have passed it, or none come any more."""
        with self._more:
            self._handled += 1
            enough = self._handled + SLOWER_THAN
            self._more.notify_all()
            if slow:
                self._more.wait_for(lambda: self._handled >= enough, SLOW_S_MAX)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
