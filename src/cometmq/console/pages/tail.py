"""The live tail of a topic: its new messages, sent to the page as they come."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from starlette.responses import Response

from cometmq.admin.following import NewMessages, follow
from cometmq.console.bodies import short_text
from cometmq.console.filters import check_filter
from cometmq.console.streaming import Stream
from cometmq.console.visit import Visit
from cometmq.console.workload import Busy
from cometmq.errors import CometMQError, SettingsError

ROUND_MAX: Final = 50
"""Most messages a second that a page gets; how many more have come it says."""
TAILS_MAX: Final = 20
"""Most pages that follow topics at a time."""
FOLLOWED_S: Final = 3_600
"""How long, in seconds, a page follows a topic; then it asks its visitor whether to go on."""

_following: Final = asyncio.Semaphore(TAILS_MAX)


async def tail(visit: Visit) -> Response:
    """Show the page, which asks for the messages."""
    query = {name: visit.text(name) for name in ("topic", "tags", "sql")}
    if query["topic"]:
        _check(query)
        await visit.cluster.route(query["topic"])
    return visit.page("tail.html", here="/messages", query=query, most=ROUND_MAX)


async def events(visit: Visit) -> Response:
    """Send new messages as server-sent events, until the page is closed."""
    query = {name: visit.text(name) for name in ("topic", "tags", "sql")}
    _check(query)
    await visit.cluster.route(query["topic"])
    if _following.locked():
        raise Busy(f"{TAILS_MAX} pages follow topics already: close one of them")
    return await Stream(_events(visit, query), "text/event-stream").begun()


def _check(query: dict[str, str]) -> None:
    if not query["topic"]:
        raise SettingsError("give the topic to follow")
    check_filter(query["tags"], query["sql"])


async def _events(visit: Visit, query: dict[str, str]) -> AsyncGenerator[bytes]:
    """Yield an event for each round, or a comment, by which a closed page is noticed."""
    tags, sql = query["tags"] or "*", query["sql"] or None
    now = asyncio.get_running_loop().time
    end = now() + FOLLOWED_S
    async with (
        _following,
        aclosing(follow(visit.cluster, query["topic"], limit=ROUND_MAX, tags=tags, sql=sql)) as rounds,
    ):
        try:
            async for found in rounds:
                if not visit.site.visitors.knows(visit.visitor):
                    break
                yield _rendered(visit, found).encode()
                if now() > end:
                    yield event("end", "it was followed for an hour").encode()
                    break
        except CometMQError as error:
            yield event("end", str(error)).encode()


def _rendered(visit: Visit, found: NewMessages) -> str:
    parts = []
    if found.messages:
        rows = [(excerpt, short_text(excerpt)) for excerpt in reversed(found.messages)]
        parts.append(event("messages", visit.site.part("tail_rows.html", rows=rows)))
    if found.skipped:
        parts.append(event("skipped", str(found.skipped)))
    parts += [event("trouble", f"{one.broker_name}, {one.address}: {one.text}") for one in found.troubles]
    return "".join(parts) or ":\n\n"


def event(name: str, data: str) -> str:
    """Return a server-sent event."""
    lines = "".join(f"data: {line}\n" for line in data.splitlines() or [""])
    return f"event: {name}\n{lines}\n"
