"""A load generator on rocketmq-client-python, the binding to the C++ client: see ``other_clients``.

It runs in an environment of its own, which has nothing of CometMQ, and takes the orders of ``java/Load.java``
for sync and push: it has no async send, and no batches.
"""

import json
import os
import subprocess
import sys
import time

from benches.meter import Meter, Order
from rocketmq.client import (  # type: ignore[import-not-found] # it is installed there only
    ConsumeStatus,
    Message,
    Producer,
    PushConsumer,
)
from rocketmq.exceptions import ProducerSendSyncFailed  # type: ignore[import-not-found] # likewise

BATCH = 32
PUSH = "--push"
LOOK_EVERY_S = 0.02


def sync(order: Order) -> dict[str, float]:
    """Send from threads that wait for each answer."""
    meter = Meter(order)
    producer = Producer("load")
    producer.set_namesrv_addr(order["namesrv"])
    producer.start()

    def work() -> None:
        count = 0
        while meter.goes_on(count):
            message = Message(meter.next_topic())
            message.set_body(meter.body)
            try:
                producer.send_sync(message)
                count = 1
            except ProducerSendSyncFailed:  # now and then, where many threads ask for the same route
                count = 0

    result = meter.run(work, order["threads"])
    producer.shutdown()
    return result


def push(order: Order) -> dict[str, float]:
    """Consume as the only member of a new group, from the first messages on."""
    meter = Meter(order)
    consumer = PushConsumer(f"consume-{time.monotonic_ns()}")
    consumer.set_namesrv_addr(order["namesrv"])
    consumer.set_message_batch_max_size(BATCH)

    def handle(message: Message) -> ConsumeStatus:
        meter.goes_on(len(message.body) > 0)
        return ConsumeStatus.CONSUME_SUCCESS

    for topic in meter.topics:
        consumer.subscribe(topic, handle)
    consumer.start()
    while not meter.is_over:
        time.sleep(LOOK_EVERY_S)
    return meter.result()


def main() -> None:
    """Answer orders until there are no more; with --push one, and end without a word to the consumer.

    Its ``shutdown`` may never return: it waits for a handler that waits for Python's lock, which it holds.
    """
    if PUSH in sys.argv:
        print(json.dumps(push(json.loads(sys.stdin.read()))), flush=True)
        os._exit(0)
    for line in sys.stdin:
        order = json.loads(line)
        if order["mode"] == "push":
            subprocess.run(
                [sys.executable, "-m", "benches.binding_load", PUSH], input=line, text=True, check=True
            )
        else:
            print(json.dumps(sync(order)), flush=True)


if __name__ == "__main__":
    main()
