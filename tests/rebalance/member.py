"""One consumer of a campaign as a process: prints a line for each message that it begins and ends to handle.

Arguments: name server, group, topic, strategy, "ordered" or "concurrent". SIGTERM lets it leave.
"""

import asyncio
import json
import logging
import random
import signal
import sys
import time
from typing import Final

from cometmq import Consumer, Start, StoredMessage
from cometmq.cluster.rebalance import ConsistentHash, MachineRoomNearby, Strategy, averagely, by_circle

STRATEGIES: Final[dict[str, Strategy]] = {
    "averagely": averagely,
    "by_circle": by_circle,
    "consistent_hash": ConsistentHash(),
    "machine_room_nearby": MachineRoomNearby(by_circle, lambda _: "here", lambda _: "here"),
}
HANDLING_MS_MAX: Final = 2


def say(event: str, *values: object) -> None:
    print(json.dumps([time.monotonic_ns(), event, *values]), flush=True)


async def main(name_server: str, group: str, topic: str, strategy: str, way: str) -> None:
    logging.disable(logging.WARNING)  # a broker that is away is worth a warning for each queue
    leave = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave.set)
    consumer = Consumer(name_server, group, start=Start.FIRST, strategy=STRATEGIES[strategy])

    @consumer.on(topic, ordered=way == "ordered")
    async def handle(message: StoredMessage) -> None:
        what = (message.queue_id, message.queue_offset, int(message.body))
        say("begin", *what)
        await asyncio.sleep(random.uniform(0, HANDLING_MS_MAX) / 1000)
        say("end", *what)

    async with consumer:
        say("joined")
        await leave.wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
