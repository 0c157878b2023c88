"""A cluster in which something goes on: topics with messages, groups that lag, and clients that run."""

import asyncio
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Final, NamedTuple

from cometmq import blocking
from cometmq.admin import messages
from cometmq.admin.topics import TopicAdmin
from cometmq.client import Producer, PullConsumer, SendResult, Start, TransactionState
from cometmq.format.layout import DLQ_PREFIX, RETRY_PREFIX
from cometmq.message import Message

TOPICS: Final = {
    "orders": 4,
    "payments": 2,
    "refunds": 1,
    "settlement-reconciliation_eu-west-1_daily": 2,
    DLQ_PREFIX + "mailer": 1,
    RETRY_PREFIX + "mailer": 1,
}
ORDERS: Final = 40
LETTERS: Final = 3
HANDLED: Final = "handlers"
"""The group whose member runs and handles orders."""


class Contents(NamedTuple):
    """Messages of the cluster: an order as JSON, one that is not text, and one that is traced."""

    order: SendResult
    binary: SendResult
    traced: SendResult


@contextmanager
def living(name_server: str) -> Iterator[Contents]:
    """Fill a cluster, and keep clients of it running."""
    with ThreadPoolExecutor(1) as thread:  # Playwright's loop is this thread's
        contents = thread.submit(asyncio.run, _fill(name_server)).result()
    with ExitStack() as running:
        for tags in ("paid", "paid || open"):
            consumer = blocking.Consumer(name_server, "billing", start=Start.FIRST)
            consumer.subscribe("payments", lambda _: None, tags=tags)
            running.enter_context(consumer)
        handler = blocking.Consumer(name_server, HANDLED, start=Start.LAST)
        handler.subscribe("orders", lambda _: None)
        running.enter_context(handler)
        shop = blocking.TransactionProducer(name_server, "shop", check=lambda _: TransactionState.UNKNOWN)
        running.enter_context(shop)
        shop.send_in_transaction(Message("payments", b"half"), lambda _: TransactionState.UNKNOWN)
        yield contents


async def _fill(name_server: str) -> Contents:
    async with TopicAdmin(name_server) as admin, Producer(name_server, "shop", trace=True) as traced:
        for topic, queues in TOPICS.items():
            await admin.create(topic, queues=queues)
        async with Producer(name_server, "filler") as producer:
            sent = [await producer.send(_order(number)) for number in range(ORDERS)]
            binary = await producer.send(Message("refunds", bytes(range(256)), keys=("all-bytes",)))
            await producer.send(Message("payments", b"paid in cash", tags="paid"))
            await producer.send(Message("orders", b"tomorrow", delay_ms=86_400_000))
        for number in range(LETTERS):
            (one,) = await messages.by_id(admin, sent[number].offset_id)
            await messages.send_again(admin, one, DLQ_PREFIX + "mailer", RETRY_TOPIC="orders")
        async with PullConsumer(name_server, "warehouse") as reader:
            for queue in await reader.queues("orders"):
                await reader.pull(queue, 0)  # by which a Java broker gets to know the group
                await reader.commit(queue, queue.queue_id)
        followed = await traced.send(Message("orders", b'{"id": "traced"}', keys=("traced",)))
    return Contents(sent[7], binary, followed)


def _order(number: int) -> Message:
    body = {
        "id": number,
        "customer": "Ada Lovelace",
        "total": 12.5 * number,
        "lines": [{"sku": "A-7", "n": 2}],
    }
    return Message(
        "orders",
        json.dumps(body).encode(),
        tags="paid" if number % 2 else "open",
        keys=(f"order-{number}",),
        properties={"region": "eu"},
    )
