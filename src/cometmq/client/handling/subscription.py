"""The subscription of a consumer to one topic, with its handler."""

import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from cometmq.arguments import FLAG, FUNCTION, check, number, or_none
from cometmq.client.calling import call
from cometmq.client.requests.queue_requests import SQL92
from cometmq.errors import SettingsError
from cometmq.filter import tag
from cometmq.format.layout import valid_topic
from cometmq.message import StoredMessage
from cometmq.wire.bodies.heartbeat import SubscriptionData, tag_subscription

if TYPE_CHECKING:  # it imports sqlite3, which most consumers need not
    from cometmq.client.idempotence.deduplicator import Once

Handler = Callable[[Any], Awaitable[None] | None]
"""A function of a :class:`StoredMessage`, or of a list of them if the subscription has a batch size."""


@dataclass(frozen=True)
class Subscription:
    """A topic, a filter of its messages, and their handler.

    Attributes:
        tags: ``*``, or tags joined by ``||``.
        sql: a condition that the broker evaluates, instead of tags.
        ordered: whether each queue's messages are handled one after the other, by one member of the group.
        batch_size: most messages in the list that the handler gets; None for single messages, without a list.
        once: passes over messages that were handled before; None to handle all.

    Raises:
        IllegalName: the topic's name.
        FormatError: ``tags`` is no tag expression.
        IllegalArgument: both ``tags`` and ``sql`` are given.
        SettingsError: ``batch_size`` is not from 1 to 1024; or IllegalType.
    """

    topic: str
    handler: Handler
    tags: str = "*"
    sql: str | None = None
    ordered: bool = False
    batch_size: int | None = None
    once: "Once | None" = None

    def __post_init__(self) -> None:
        """Check the attributes."""
        check(FUNCTION, handler=self.handler)
        check(FLAG, ordered=self.ordered)
        check(or_none(number()), batch_size=self.batch_size)
        self.data(0)
        if self.batch_size is not None and not 1 <= self.batch_size <= 1024:
            raise SettingsError(f"batch size {self.batch_size}: give 1 to 1024, or None for single messages")

    @cached_property
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.handler)

    def data(self, version: int) -> SubscriptionData:
        """Return the subscription as brokers get it; ``version`` is a time in ms since the epoch."""
        return subscription_data(self.topic, self.tags, self.sql, version)

    async def handle(self, messages: list[StoredMessage], pool: Executor) -> None:
        """Call the handler; a plain function runs in ``pool``. Raises like ``calling.call``."""
        call_handler = partial(self._call, pool)
        await (call_handler(messages) if self.once is None else self.once.handle(messages, call_handler))

    async def _call(self, pool: Executor, messages: list[StoredMessage]) -> None:
        argument = messages if self.batch_size is not None else messages[0]
        await call(self.handler, argument, pool, is_async=self._is_async)


def subscription_data(topic: str, tags: str, sql: str | None, version: int) -> SubscriptionData:
    """Build a subscription as brokers get it; ``version`` is a time in ms since the epoch.

    Raises:
        IllegalName: the topic's name.
        FormatError: ``tags`` is no tag expression.
        IllegalArgument: both ``tags`` and ``sql`` are given.
        IllegalType: an argument has the wrong type.
    """
    valid_topic(topic)
    tag.check_filter(tags, sql)
    if sql is None:
        return tag_subscription(topic, tags, version)
    return SubscriptionData(topic, sql, SQL92, version)


Handle = Callable[[Subscription, list[StoredMessage]], Awaitable[None]]
"""Calls a subscription's handler with messages. Raises what it raises."""


def unhandled(topic: str) -> Subscription:
    """Return a subscription for a topic without one: its handler raises LookupError."""

    async def fail(_: object) -> None:
        raise LookupError(
            f"no handler for topic {topic!r}: all members of a group must subscribe to the same topics"
        )

    return Subscription(topic, fail)
