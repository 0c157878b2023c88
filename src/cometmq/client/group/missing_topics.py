"""Warn of subscribed topics that no name server knows: their names may be wrong, and nothing would say so."""

import asyncio
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from difflib import get_close_matches
from typing import Final

from cometmq.client.routes import Routes
from cometmq.client.waiting import wait_within
from cometmq.errors import CometMQError, NoRoute
from cometmq.format.layout import RETRY_PREFIX
from cometmq.logs import get_logger

GRACE_S: Final = 1.0
"""How long a topic may be missing before a warning: producers create topics, too."""
REPEAT_S: Final = 60.0
"""How often the warning is repeated."""

_log = get_logger(__name__)


class MissingTopics:
    """Watches the topics of one member.

    Args:
        group: the consumer group, for the log.
        topics: returns the topics that are subscribed to now.
    """

    def __init__(self, routes: Routes, group: str, topics: Callable[[], Iterable[str]]) -> None:
        self._routes = routes
        self._group = group
        self._topics = topics
        self._due = asyncio.Event()
        self._warned_at: dict[str, float] = {}
        self._nearest: dict[str, str] = {}

    def check_soon(self) -> None:
        """Check the topics without waiting for the interval: others may be subscribed to now."""
        self._due.set()

    async def run(self) -> None:
        """Check the topics a second after the start and after ``check_soon``, and then each minute."""
        while True:
            await asyncio.sleep(GRACE_S)
            self._due.clear()
            for topic in [topic for topic in self._topics() if not topic.startswith(RETRY_PREFIX)]:
                await self._check(topic)
            await wait_within(self._due, REPEAT_S - GRACE_S)

    async def _check(self, topic: str) -> None:
        try:
            await self._routes.get(topic)
        except NoRoute:
            await self._warn(topic)
        except CometMQError as error:  # no name server answers: that is logged elsewhere
            _log.debug("whether topic %s exists is not known: %s", topic, error)
        else:
            self._warned_at.pop(topic, None)
            self._nearest.pop(topic, None)

    async def _warn(self, topic: str) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._warned_at.get(topic, -math.inf) + REPEAT_S - GRACE_S:
            return
        self._warned_at[topic] = now
        if topic not in self._nearest:
            self._nearest[topic] = await self._find_nearest(topic)
        _log.warning(
            "group %s subscribes to topic %r, which no name server knows%s: nothing is consumed of it until "
            "it is created",
            self._group, topic, self._nearest[topic],
        )  # fmt: skip

    async def _find_nearest(self, topic: str) -> str:
        """Return a hint of the known topic that is most similar; empty if none is."""
        with suppress(CometMQError):
            names = [name for name in await self._routes.topics() if not name.startswith("%")]
            if found := await asyncio.to_thread(get_close_matches, topic, names, 1):  # names may be many
                return f" (is {found[0]!r} meant?)"
        return ""
