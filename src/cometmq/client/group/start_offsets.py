"""The start offsets of a group that pops, and begins at the ends of its queues.

Where a group has no offset a broker chooses one at the first pop, and so skips what was stored before. Hence
members commit the start offset of each queue first, and do not pop a broker before. Brokers may be away, and
queues may be added: the group begins there with what was stored since it began with the topic.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from cometmq.client.group.member_settings import MemberSettings
from cometmq.client.handling.start import Start
from cometmq.client.requests.queue_requests import QueueRequests
from cometmq.cluster.assignment import ALL_QUEUES
from cometmq.errors import CometMQError
from cometmq.logs import get_logger
from cometmq.message import MessageQueue
from cometmq.wire.bodies.heartbeat import ConsumeFromWhere

StartAttempts = dict[MessageQueue, "asyncio.Task[CometMQError | None]"]
"""By topic and broker, with queue id -1: attempts to commit start offsets there, and how they failed."""

_log = get_logger(__name__)


class StartOffsets:
    """Commits the start offset of one group, once in each queue, if the group begins at the end."""

    def __init__(self, requests: QueueRequests, settings: MemberSettings) -> None:
        self._requests = requests
        self._clock = settings.clock
        self._is_needed = settings.where is ConsumeFromWhere.LAST_OFFSET
        self._since_ms: dict[str, int] = {}
        self._committed: set[MessageQueue] = set()
        self._attempts: StartAttempts = {}

    @property
    def topics(self) -> AbstractSet[str]:
        """The topics in which the group has begun, or tries to."""
        return self._since_ms.keys()

    def set_topics(self, topics: Iterable[str]) -> None:
        """Set the topics; new ones begin now: what is stored from now on is skipped in no queue."""
        now_ms = self._clock.now_ms()
        self._since_ms = {topic: self._since_ms.get(topic, now_ms) for topic in topics}

    def attempts(self, queues: Iterable[MessageQueue]) -> StartAttempts:
        """Attempt to commit where that was not done yet; return the attempts, which callers share.

        A broker that is not among the results may be popped.
        """
        if not self._is_needed:
            return {}
        missing: defaultdict[MessageQueue, list[MessageQueue]] = defaultdict(list)
        for queue in queues:
            if queue not in self._committed:
                missing[queue._replace(queue_id=ALL_QUEUES)].append(queue)
        for source in missing.keys() - self._attempts.keys():
            self._attempts[source] = asyncio.create_task(self._attempt(source, missing[source]))
        return {source: self._attempts[source] for source in missing}

    async def commit(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Commit where that was not done yet; return, with queue id -1, the brokers where it failed."""
        attempts = self.attempts(queues)
        failed: set[MessageQueue] = set()
        for source, attempt in attempts.items():
            await asyncio.wait((attempt,))  # a cancellation ends no attempt, as others may wait for it
            if (error := attempt.result()) is not None:
                failed.add(source)
                _log.debug("the start in %s of %s is not known yet: %s", *source[:2], error)
        return failed

    async def end_attempts(self) -> None:
        """Wait for the attempts under way, which fail once the connections are closed."""
        await asyncio.gather(*self._attempts.values())

    async def _attempt(self, source: MessageQueue, queues: list[MessageQueue]) -> CometMQError | None:
        try:
            errors = await asyncio.gather(*map(self._commit, queues))
        finally:
            del self._attempts[source]
        return next((error for error in errors if error is not None), None)

    async def _commit(self, queue: MessageQueue) -> CometMQError | None:
        try:
            # The end before the committed offset: so nobody skips a message that is stored in between.
            end = await Start.LAST.offset(self._requests, queue, self._since_ms.get(queue.topic))
            if await self._requests.committed(queue) is None:
                first_if_new = await self._requests.committed(queue, young_is_zero=True)
                await self._requests.commit(queue, end if first_if_new is None else first_if_new)
        except CometMQError as error:
            return error
        self._committed.add(queue)
        return None
