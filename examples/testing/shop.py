"""A tiny shop: it announces orders, and packs those that are paid, each once.

Its tests are beside it: ``pytest examples/testing``.
"""

from cometmq import Consumer, Deduplicator, Message, Producer, Start, StoredMessage
from cometmq.client.idempotence import MemoryClaims

TOPIC = "orders"
GROUP = "packing"


class SoldOutError(Exception):
    """There is nothing left to pack."""


class Shop:
    """A shop that sends to, and consumes from, the RocketMQ behind ``name_server``."""

    def __init__(self, name_server: str, stock: int) -> None:
        self.stock = stock
        self.packed: list[str] = []
        self.producer = Producer(name_server, group="shop")
        self.consumer = Consumer(
            name_server,
            group=GROUP,
            start=Start.FIRST,
            max_reconsume_times=2,
            deduplicator=Deduplicator(MemoryClaims()),
        )
        self.consumer.subscribe(TOPIC, self.pack, tags="paid", idempotent_by="keys")

    async def sell(self, number: str) -> None:
        """Announce an order."""
        await self.producer.send(Message(TOPIC, b"a button", tags="paid", keys=(number,)))

    def pack(self, message: StoredMessage) -> None:
        """Pack an order, or fail if there is nothing left: it comes again later."""
        if not self.stock:
            raise SoldOutError
        self.stock -= 1
        self.packed += message.keys
