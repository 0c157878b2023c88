"""Pop from the brokers of several topics in turn, by one request at a time.

A pop that waits is held by one broker. So all brokers are first queried without a wait, and only then the
time is divided among them. The next pop begins behind the broker that had messages. No broker is popped
before the group's start offsets are committed there.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

from cometmq.client.consumer.pop.receipts import PopReceipts
from cometmq.client.group.start_offsets import StartAttempts, StartOffsets
from cometmq.client.requests.pop_requests import PopOptions, PopRequests, PopResult, PopStatus, whole_brokers
from cometmq.client.routes import Routes
from cometmq.errors import CometMQError, NetworkError, NoRoute, RemoteError
from cometmq.format.pop.receipt import parse_receipt
from cometmq.format.properties import POP_CK
from cometmq.logs import get_logger
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire.bodies.heartbeat import SubscriptionData

START_S: Final = 0.1
"""How long to wait for start offsets before a wait for messages: usually they take milliseconds."""

_log = get_logger(__name__)


class PopTurns:
    """Pops for one consumer.

    Args:
        receipts: learns the brokers' times.
    """

    def __init__(
        self, requests: PopRequests, routes: Routes, starts: StartOffsets, receipts: PopReceipts
    ) -> None:
        self._requests = requests
        self._routes = routes
        self._starts = starts
        self._receipts = receipts
        self._last: MessageQueue | None = None

    async def pop(
        self, subscriptions: Mapping[str, SubscriptionData], options: PopOptions
    ) -> list[StoredMessage]:
        """Pop messages of the first broker that has some; wait for them up to ``options.wait_ms``.

        Raises NoRoute, NetworkError or RemoteError if no topic has a broker, or all of them fail.
        """
        queues = await self._queues(subscriptions)
        sources = self._in_turn(whole_brokers(queues))
        attempts = self._starts.attempts(queues)
        failures: dict[MessageQueue, CometMQError] = {}
        rounds = [options] if len(sources) == 1 else [options._replace(wait_ms=0), options]
        for one_round in rounds if options.wait_ms else rounds[:1]:
            if attempts and one_round.wait_ms:
                await asyncio.wait(attempts.values(), timeout=START_S)
            remaining = await _begun(sources, attempts, failures)
            if found := await self._pop_round(remaining, subscriptions, one_round, failures):
                return found
        if len(failures) == len(sources):
            raise next(iter(failures.values()))
        self._last = sources[0]
        return []

    async def _queues(self, subscriptions: Mapping[str, SubscriptionData]) -> list[MessageQueue]:
        """Return the readable queues of all topics. Raises the error of a topic if none has a route."""
        queues: list[MessageQueue] = []
        failure: CometMQError | None = None
        for topic in list(subscriptions):
            try:
                queues += (await self._routes.get(topic)).subscribe_queues()
            except (NetworkError, NoRoute, RemoteError) as error:
                failure = error
        if not queues:
            raise failure or NoRoute(f"no broker of the topics {list(subscriptions)} can be read")
        return queues

    def _in_turn(self, sources: list[MessageQueue]) -> list[MessageQueue]:
        """Return the sources from behind the last one on."""
        begin = sources.index(self._last) + 1 if self._last in sources else 0
        return sources[begin:] + sources[:begin]

    async def _pop_round(
        self,
        sources: list[MessageQueue],
        subscriptions: Mapping[str, SubscriptionData],
        options: PopOptions,
        failures: dict[MessageQueue, CometMQError],
    ) -> list[StoredMessage]:
        """Pop from one source after the other until one has messages; add those that fail to ``failures``."""
        now = asyncio.get_running_loop().time
        end = now() + options.wait_ms / 1000
        for index, source in enumerate(sources):
            wanted = subscriptions.get(source.topic)
            if wanted is None:  # it was unsubscribed meanwhile
                continue
            wait_ms = max(0, round((end - now()) * 1000)) // (len(sources) - index)
            try:
                result = await self._requests.pop(source, wanted, options._replace(wait_ms=wait_ms))
            except (NetworkError, NoRoute, RemoteError) as error:
                _add_failure(source, error, failures)
                continue
            if messages := await self._wanted(result, source):
                self._last = source
                return messages
            if result.status is PopStatus.POLLING_FULL:
                await asyncio.sleep(wait_ms / 1000)  # the broker did not wait
        return []

    async def _wanted(self, result: PopResult, source: MessageQueue) -> list[StoredMessage]:
        """Return the messages of a pop; acknowledge those that nobody wants."""
        if result.status is PopStatus.FOUND:
            self._receipts.set_time(source.broker_name, result.pop_time_ms)
        if result.unwanted:
            handles = [parse_receipt(message.properties[POP_CK]) for message in result.unwanted]
            try:
                await self._requests.ack_all(source.topic, handles)
            except (NetworkError, NoRoute, RemoteError) as error:
                _log.warning("messages with unwanted tags come again: %s", error)
        return result.messages


async def _begun(
    sources: list[MessageQueue], attempts: StartAttempts, failures: dict[MessageQueue, CometMQError]
) -> list[MessageQueue]:
    """Return the sources that can be popped; add those whose attempt has failed to ``failures``.

    An attempt under way, perhaps at a broker that is away, is waited for only if no source can be popped.
    """
    while True:
        for source in [source for source, attempt in attempts.items() if attempt.done()]:
            if (error := attempts.pop(source).result()) is not None:
                _add_failure(source, error, failures)
        begun = [source for source in sources if source not in attempts and source not in failures]
        if begun or not attempts:
            return begun
        await asyncio.wait(attempts.values(), return_when=asyncio.FIRST_COMPLETED)


def _add_failure(
    source: MessageQueue, error: CometMQError, failures: dict[MessageQueue, CometMQError]
) -> None:
    _log.warning("no messages of %s from broker %s: %s", *source[:2], error)
    failures[source] = error
