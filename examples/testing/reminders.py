"""A program without asyncio: it reminds of bills, two hours after they were written."""

from cometmq import Message
from cometmq.blocking import Producer

TOPIC = "reminders"
TWO_HOURS = 18
"""The delay level."""


def remind_later(name_server: str, bill: str) -> None:
    """Send a reminder that comes in two hours."""
    with Producer(name_server, group="bills") as producer:
        producer.send(Message(TOPIC, b"please pay", keys=(bill,), delay_level=TWO_HOURS))
