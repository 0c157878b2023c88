"""A load generator on rocketmq-client-python, the binding to the C++ client: see ``other_clients``.

It runs in an environment of its own, which has nothing of CometMQ, and takes the orders of ``java/Load.java``
for sync and push: it has no async send, and no batches.
"""

import json
import sys
import threading
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

    threads = [threading.Thread(target=work) for _ in range(order["threads"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.shutdown()
    return meter.result()


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
    consumer.shutdown()
    return meter.result()


MODES = {"sync": sync, "push": push}


def main() -> None:
    """Answer orders until there are no more."""
    for line in sys.stdin:
        order = json.loads(line)
        print(json.dumps(MODES[order["mode"]](order)), flush=True)


if __name__ == "__main__":
    main()
