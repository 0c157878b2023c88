"""What a consumer subscribes to, and the handler that gets it."""

import inspect
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from cometmq.arguments import FLAG, FUNCTION, TEXT, check, number, or_none
from cometmq.client.calling import call
from cometmq.client.consumer.queue_requests import SQL92
from cometmq.errors import SettingsError
from cometmq.filter import tag
from cometmq.format.layout import valid_topic
from cometmq.message import StoredMessage
from cometmq.wire.bodies.heartbeat import SubscriptionData, tag_subscription

if TYPE_CHECKING:  # it imports sqlite3, which most consumers need not
    from cometmq.client.idempotence.deduplicator import Once

Handler = Callable[[Any], Awaitable[None] | None]
"""Takes a :class:`StoredMessage`, or a list of them where the subscription has a batch size."""


@dataclass(frozen=True)
class Subscription:
    """A topic, which of its messages, and what is done with them.

    Attributes:
        tags: ``*``, or tags joined by ``||``.
        sql: a condition that the broker evaluates, instead of tags.
        ordered: whether each queue's messages are handled one after the other, by one member of the group.
        batch_size: most messages that the handler gets at once, as a list; None for one, as it is.
        once: keeps messages from the handler that were handled before; None to let all come.

    Raises:
        IllegalName: the topic's name.
        FormatError: ``tags`` is no tag expression.
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
        """Refuse what could not be consumed."""
        valid_topic(self.topic)
        check(FUNCTION, handler=self.handler)
        check(or_none(TEXT), sql=self.sql)
        check(FLAG, ordered=self.ordered)
        check(or_none(number()), batch_size=self.batch_size)
        tag.parse(self.tags)
        if self.batch_size is not None and not 1 <= self.batch_size <= 1024:
            raise SettingsError(f"batch size {self.batch_size}: give 1 to 1024, or None for single messages")

    @cached_property
    def _is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.handler)

    def data(self, version: int) -> SubscriptionData:
        """Give what the broker is told of it."""
        if self.sql is None:
            return tag_subscription(self.topic, self.tags, version)
        return SubscriptionData(self.topic, self.sql, SQL92, version)

    async def handle(self, messages: list[StoredMessage], pool: Executor) -> None:
        """Call the handler; one that is a plain function runs in ``pool``.

        Raises what it raises; HandlerEnded for what would end the worker, not only the handler.
        """
        hand_over = partial(self._call, pool)
        await (hand_over(messages) if self.once is None else self.once.handle(messages, hand_over))

    async def _call(self, pool: Executor, messages: list[StoredMessage]) -> None:
        argument = messages if self.batch_size is not None else messages[0]
        await call(self.handler, argument, pool, is_async=self._is_async)


Handle = Callable[[Subscription, list[StoredMessage]], Awaitable[None]]
"""Lets a subscription's handler have messages. Raises what it raises."""


def unhandled(topic: str) -> Subscription:
    """Stand in for the subscription of a topic that there is none of: its messages fail."""

    async def fail(_: object) -> None:
        raise LookupError(
            f"no handler for topic {topic!r}: all members of a group must subscribe to the same topics"
        )

    return Subscription(topic, fail)
