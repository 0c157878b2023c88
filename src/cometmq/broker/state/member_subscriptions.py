"""The subscriptions of each member of a consumer group, and how they differ.

A broker keeps one subscription of a group to a topic, the newest; queues are divided among the members. So if
members subscribe differently, each misses part of its messages, in RocketMQ as here. A broker can only warn.
"""

from collections.abc import Hashable, Iterable
from itertools import islice
from typing import Final, Generic, TypeVar

from cometmq.broker.state.consumer_filters import is_tag
from cometmq.filter.tag import ALL, LENGTH_MAX, SEPARATOR
from cometmq.format.layout import RETRY_PREFIX
from cometmq.wire.bodies import SubscriptionData, SubscriptionDifference

NOTHING: Final = "nothing"
"""Stands for the expression of a member that does not subscribe to a topic."""
TOPICS_SHOWN: Final = 10
MEMBERS_SHOWN: Final = 10
TEXT_SHOWN: Final = 100
"""Most characters of an expression that are shown."""

KeyT = TypeVar("KeyT", bound=Hashable)
Expressions = dict[str, str]
"""Expressions by topic."""
Differing = frozenset[tuple[str, frozenset[str]]]
"""Topics, each with the different expressions."""


class MemberSubscriptions(Generic[KeyT]):
    """The subscriptions of one group's members; ``KeyT`` identifies a connection.

    A client with several connections counts once, with its newest subscriptions. One without subscriptions
    only queries, and does not count.
    """

    def __init__(self) -> None:
        self._clients: dict[KeyT, str] = {}
        self._by_client: dict[str, Expressions] = {}
        self._by_topic: dict[str, dict[str, dict[str, None]]] = {}
        self._counts: dict[str, int] = {}  # of the members that subscribe to a topic

    def update(self, channel: KeyT, client_id: str, subscriptions: Iterable[SubscriptionData]) -> bool:
        """Store a heartbeat's subscriptions; return whether they have changed."""
        expressions: Expressions = {}
        texts: dict[tuple[str, str], str] = {}  # thousands of subscriptions have few expressions
        for data in subscriptions:
            if data.topic.startswith(RETRY_PREFIX):
                continue
            expression = data.expression_type, data.expression
            if expression not in texts:
                texts[expression] = _text(*expression)
            expressions[data.topic] = texts[expression]
        if self._clients.get(channel) == client_id and self._by_client.get(client_id, {}) == expressions:
            return False
        self.remove(channel)
        self._clients[channel] = client_id
        self._replace(client_id, expressions)
        return True

    def remove(self, channel: KeyT) -> None:
        """Remove a connection, and its client unless that has another one."""
        client_id = self._clients.pop(channel, None)
        if client_id is not None and client_id not in self._clients.values():
            self._replace(client_id, {})

    def differing(self) -> Differing:
        """Return the topics in which members differ, with their expressions, whoever has which."""
        count, counts = len(self._by_client), self._counts
        found = [
            (topic, by_text)
            for topic, by_text in self._by_topic.items()
            if counts[topic] < count or len(by_text) > 1
        ]
        return frozenset(
            (topic, frozenset(by_text) | ({NOTHING} if counts[topic] < count else frozenset()))
            for topic, by_text in found
        )

    def differences(self) -> list[SubscriptionDifference]:
        """Return the differences with the members that have each expression, cut to a length for people."""
        return [
            SubscriptionDifference(topic, self._members_by_text(topic, sorted(texts)))
            for topic, texts in islice(sorted(self.differing()), TOPICS_SHOWN)
        ]

    def _members_by_text(self, topic: str, texts: list[str]) -> dict[str, list[str]]:
        by_text = self._by_topic[topic]
        found = {}
        for text in texts[:MEMBERS_SHOWN]:
            ids: Iterable[str] = by_text.get(text) or (
                client_id for client_id, expressions in self._by_client.items() if topic not in expressions
            )
            found[text[:TEXT_SHOWN]] = sorted(islice(ids, MEMBERS_SHOWN))
        return found

    def _replace(self, client_id: str, expressions: Expressions) -> None:
        for topic, text in self._by_client.pop(client_id, {}).items():
            by_text = self._by_topic[topic]
            del by_text[text][client_id]
            if not by_text[text]:
                del by_text[text]
            self._counts[topic] -= 1
            if not by_text:
                del self._by_topic[topic], self._counts[topic]
        if expressions:
            self._by_client[client_id] = expressions
        for topic, text in expressions.items():
            if topic not in self._by_topic:
                self._by_topic[topic], self._counts[topic] = {}, 0
            by_text = self._by_topic[topic]
            if text not in by_text:
                by_text[text] = {}
            by_text[text][client_id] = None
            self._counts[topic] += 1


def as_text(difference: SubscriptionDifference) -> str:
    """Format a difference for people: ``topic orders: a wants TagA; b, c want TagB``."""
    wants = (
        f"{', '.join(ids)} {'wants' if len(ids) == 1 else 'want'} {text}"
        for text, ids in difference.wants.items()
    )
    return f"topic {difference.topic}: {'; '.join(wants)}"


def _text(expression_type: str, expression: str) -> str:
    """Normalize an expression: its tags are sorted, so that their order makes no difference."""
    if not is_tag(expression_type):
        return f"{expression_type}: {expression}"
    if expression in {"", ALL}:
        return ALL
    if SEPARATOR not in expression or len(expression) > LENGTH_MAX:
        return expression.strip()
    return f" {SEPARATOR} ".join(sorted({tag.strip() for tag in expression.split(SEPARATOR)} - {""}))
