"""Members of all groups of a campaign in one process, which is forked: each is called by the process's place.

It writes a line into its pipe for each message that it begins and ends to handle, and for the ordered queues
that it has whenever they change. SIGTERM lets it leave.
"""

import asyncio
import json
import logging
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from itertools import product
from multiprocessing.connection import Connection
from typing import Final

from tests.campaigns.clients.hurry import HURRIED_HEARTBEAT_MS, hurry

from cometmq import Consumer, MessageQueue, Start, StoredMessage
from cometmq.cluster.rebalance import (
    ByConfig,
    ConsistentHash,
    MachineRoom,
    MachineRoomNearby,
    Strategy,
    averagely,
    by_circle,
)
from cometmq.errors import NetworkError

BROKER_NAME: Final = "here@broker-a"
WAYS: Final = ("concurrent", "ordered")
HANDLING_MS_MAX: Final = 4
CONCURRENCY: Final = 4
START_AGAIN_S: Final = 0.2

Say = Callable[..., None]


def topic_of(strategy: str, way: str) -> str:
    """Return the topic that a strategy's group consumes in a way."""
    return f"{strategy}-{way}"


def room_of_client(client_id: str) -> str:
    """Return the room of a client: for about half of the members the broker's."""
    return "here" if int(client_id[-1]) % 2 else "elsewhere"


def strategies(place: int, places: int, queues_max: int) -> dict[str, Strategy]:
    """Return the strategies as the member at a place has them."""
    fixed = [
        MessageQueue(topic_of("by_config", way), BROKER_NAME, queue_id)
        for way, queue_id in product(WAYS, range(place, queues_max, places))
    ]
    return {
        "averagely": averagely,
        "by_circle": by_circle,
        "consistent_hash": ConsistentHash(),
        "machine_room": MachineRoom(frozenset({"here"})),
        "machine_room_nearby": MachineRoomNearby(by_circle, lambda _: "here", room_of_client),
        "by_config": ByConfig(tuple(fixed)),
    }


STRATEGIES: Final = tuple(strategies(0, 1, 1))


def run(name_server: str, place: int, places: int, queues_max: int, pipe: Connection) -> None:
    """Be a member of all groups, until SIGTERM."""
    hurry()
    logging.disable(logging.WARNING)  # a broker that is away is worth a warning for each queue
    random.seed()
    asyncio.run(_run(name_server, strategies(place, places, queues_max), partial(_say, pipe.fileno())))


async def _run(name_server: str, mine: dict[str, Strategy], say: Say) -> None:
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
    async with AsyncExitStack() as members:
        for name, strategy in mine.items():
            await _start(members, _member(name_server, name, strategy, say))
        say("joined")
        await leave.wait()


async def _start(members: AsyncExitStack, consumer: Consumer) -> None:
    while True:
        try:
            await members.enter_async_context(consumer)
        except NetworkError:
            await asyncio.sleep(START_AGAIN_S)  # the broker is away, or very busy
        else:
            return


def _member(name_server: str, name: str, strategy: Strategy, say: Say) -> Consumer:
    def owns(queues: list[MessageQueue]) -> None:
        ordered = topic_of(name, "ordered")
        say("owns", ordered, [queue.queue_id for queue in queues if queue.topic == ordered])

    async def handle(message: StoredMessage) -> None:
        what = (message.topic, message.queue_id, message.queue_offset, int(message.body))
        say("begin", *what)
        await asyncio.sleep(random.uniform(0, HANDLING_MS_MAX) / 1000)
        say("end", *what)

    consumer = Consumer(
        name_server,
        name,
        start=Start.FIRST,
        strategy=strategy,
        max_concurrency=CONCURRENCY,
        on_rebalance=owns,
        heartbeat_interval_ms=HURRIED_HEARTBEAT_MS,
    )
    for way in WAYS:
        consumer.on(topic_of(name, way), ordered=way == "ordered")(handle)
    return consumer


def _say(pipe: int, event: str, *values: object) -> None:
    os.write(pipe, f"{json.dumps([time.monotonic_ns(), event, *values])}\n".encode())
