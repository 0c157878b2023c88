"""Producers and consumers in one process: it writes a line for each message that was sent, and handled.

Once a second it writes how many tasks and file descriptors it has. SIGUSR1 ends the sending, SIGTERM all.
"""

import asyncio
import gc
import itertools
import json
import logging
import os
import signal
from contextlib import AsyncExitStack
from multiprocessing.connection import Connection
from typing import Final

from cometmq import Consumer, Message, Producer, Start, StoredMessage
from cometmq.errors import CometMQError, NetworkError

TOPICS: Final = {"concurrent": False, "ordered": True}
"""The topics, each with a group of its name, and whether that consumes in order."""
MEMBERS: Final = 2
PRODUCERS: Final = 2
PAUSE_S: Final = 0.01
COUNT_S: Final = 1.0


def run(name_server: str, pipe: Connection) -> None:
    """Run the clients."""
    logging.disable(logging.ERROR)
    asyncio.run(_Clients(name_server, pipe.fileno()).run())


class _Clients:
    def __init__(self, name_server: str, pipe: int) -> None:
        self._name_server = name_server
        self._pipe = pipe
        self._numbers = itertools.count()
        self._ending = asyncio.Event()
        self._leaving = asyncio.Event()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._ending.set)
        loop.add_signal_handler(signal.SIGTERM, self._leaving.set)
        async with AsyncExitStack() as clients:
            for topic in TOPICS:
                for _ in range(MEMBERS):
                    await self._start(clients, self._consumer(topic))
            counting = asyncio.create_task(self._count())
            sending = [asyncio.create_task(self._send(topic)) for topic in TOPICS for _ in range(PRODUCERS)]
            await self._leaving.wait()
            self._ending.set()
            await asyncio.gather(*sending)
            counting.cancel()

    def _consumer(self, topic: str) -> Consumer:
        consumer = Consumer(self._name_server, topic, start=Start.FIRST)

        @consumer.on(topic, ordered=TOPICS[topic])
        async def handle(message: StoredMessage) -> None:
            queue = f"{message.store_host} {message.queue_id}"
            self._say("handled", topic, int(message.body), queue, message.queue_offset)

        return consumer

    async def _start(self, clients: AsyncExitStack, consumer: Consumer) -> None:
        while True:
            try:
                await clients.enter_async_context(consumer)
            except NetworkError:
                await asyncio.sleep(PAUSE_S)  # its connection was cut
            else:
                return

    async def _send(self, topic: str) -> None:
        async with Producer(self._name_server, "makers") as producer:
            while not self._ending.is_set():
                number = next(self._numbers)
                try:
                    result = await producer.send(Message(topic, b"%d" % number))
                except CometMQError:
                    self._say("failed", topic, number)
                else:
                    queue = result.queue
                    self._say("sent", number, f"{topic} queue {queue.queue_id} of {queue.broker_name}")
                await asyncio.sleep(PAUSE_S)

    async def _count(self) -> None:
        while True:
            gc.collect()  # what a leak is not
            self._say("counts", len(asyncio.all_tasks()), len(os.listdir("/proc/self/fd")))
            await asyncio.sleep(COUNT_S)

    def _say(self, *values: object) -> None:
        os.write(self._pipe, f"{json.dumps(values)}\n".encode())
