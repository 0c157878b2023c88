"""The message browser, and the page of one message."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from functools import partial
from typing import Final, NamedTuple, TypeVar

from starlette.responses import Response

from cometmq.admin import browsing, messages, traces
from cometmq.admin.readable import Excerpt, excerpt_of
from cometmq.admin.times import TIME_MAX, TimeRange, parse_range
from cometmq.admin.tolerant import Trouble
from cometmq.console.bodies import FORMATS, SHOWN_MAX, BodyView, short_text, view_of
from cometmq.console.exporting import download, export
from cometmq.console.filters import check_filter
from cometmq.console.visit import Visit, parse_number
from cometmq.errors import NetworkError, RemoteError, RequestTimeout, SettingsError
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire.bodies.trace import BeforeTrace, PubTrace, Trace

LIMIT: Final = 32
LIMIT_MAX: Final = 500
EXPORT_MAX: Final = 10_000
SEARCH_S: Final = 10
"""How long, in seconds, a search reads a topic; then it shows what it has found."""
KEYS_SHOWN: Final = 100
"""Most keys of a message that its page links: its properties have all."""
VIEWS: Final = ("json", "text", "hex")
FIELDS: Final = ("topic", "id", "key", "time", "queue", "offset", "tags", "sql", "limit")
FoundT = TypeVar("FoundT")


class Search(NamedTuple):
    """What a visitor looks for; which fields are given decides how it is found.

    Attributes:
        times: of store times; None for any.
        queue, offset: the queue, and where to begin in it.
        sql: replaces ``tags``.
    """

    topic: str
    message_id: str
    key: str
    times: TimeRange | None
    queue: MessageQueue | None
    offset: int
    tags: str
    sql: str | None
    limit: int


class SearchResult(NamedTuple):
    """The messages that a search finds, as they are read, and in which order; troubles are gathered."""

    messages: AsyncGenerator[StoredMessage]
    how: str
    troubles: list[Trouble]


async def browse(visit: Visit) -> Response:
    """Show the messages that the form looks for, or export them."""
    kind = visit.text("export")
    if kind and kind not in FORMATS:
        raise SettingsError(f"export {kind!r}: give one of {', '.join(FORMATS)}")
    query = {name: visit.text(name) for name in FIELDS}
    if kind:
        search = search_of(query, EXPORT_MAX)
        return await export(visit, find(visit, search).messages, search.limit, kind)
    is_asked = bool(query["topic"] or query["id"])
    excerpts: list[Excerpt] = []
    troubles: list[Trouble] = []
    how, is_whole = "", True
    if is_asked:
        search = search_of(query, LIMIT_MAX)
        found, how, troubles = find(visit, search)
        excerpts, is_whole = await first_of(found, search.limit)
    return visit.page(
        "messages.html",
        here="/messages",
        query=query,
        rows=[(excerpt, short_text(excerpt)) for excerpt in excerpts],
        how=how,
        is_whole=is_whole,
        limit=LIMIT,
        limit_max=LIMIT_MAX,
        search_s=SEARCH_S,
        asked=is_asked,
        troubles=troubles,
    )


def search_of(query: dict[str, str], limit_max: int) -> Search:
    """Parse the fields of the form. Raises SettingsError, or FormatError for an illegal filter."""
    queue = None
    if query["queue"]:
        broker_name, colon, queue_id = query["queue"].rpartition(":")
        if not colon:
            raise SettingsError(f"queue {query['queue']!r}: write it as BROKER:ID")
        queue = MessageQueue(query["topic"], broker_name, parse_number("queue", queue_id, 0))
    elif query["offset"]:
        raise SettingsError(f"offset {query['offset']}: give the queue too, as BROKER:ID")
    if not query["topic"] and not query["id"]:
        raise SettingsError("give a topic, or the offset id of a message")
    check_filter(query["tags"], query["sql"])
    return Search(
        query["topic"],
        query["id"],
        query["key"],
        parse_range(query["time"], "time") if query["time"] else None,
        queue,
        parse_number("offset", query["offset"], 0),
        query["tags"] or "*",
        query["sql"] or None,
        parse_number("limit", query["limit"], LIMIT, least=1, most=limit_max),
    )


def find(visit: Visit, search: Search) -> SearchResult:
    """Find messages: by id, by key, by offset, by time, or else the newest ones."""
    cluster, topic = visit.cluster, search.topic
    troubles: list[Trouble] = []
    if search.message_id:
        by_id = messages.with_id(cluster, search.message_id, topic or None, limit=search.limit)
        return SearchResult(by_id, "found by id", troubles)
    if search.key:
        begin, end = search.times or TimeRange(0, TIME_MAX)
        by_key = messages.by_key(cluster, topic, search.key, begin=begin, end=end, limit=search.limit)
        return SearchResult(by_key, "found by key, the newest first", troubles)
    tags, sql = search.tags, search.sql
    if search.queue is not None:
        of_queue = browsing.from_offset(cluster, search.queue, search.offset, tags=tags, sql=sql)
        return SearchResult(of_queue, "of the queue, from the offset on", troubles)
    if search.times is not None:
        begin, end = search.times
        by_time = messages.by_time(cluster, topic, begin=begin, end=end, tags=tags, sql=sql)
        return SearchResult(by_time, "from the time on, the oldest first", troubles)
    newest = browsing.newest(cluster, topic, troubles, limit=search.limit, tags=tags, sql=sql)
    return SearchResult(newest, "the newest first", troubles)


async def first_of(
    walk: AsyncGenerator[StoredMessage], limit: int, *, timeout_s: float = SEARCH_S
) -> tuple[list[Excerpt], bool]:
    """Return the first messages of an iteration, and whether there was time to read them all."""
    found: list[Excerpt] = []
    async with aclosing(walk):
        try:
            async with asyncio.timeout(timeout_s):
                async for message in walk:
                    found.append(excerpt_of(message))
                    if len(found) == limit:
                        break
        except TimeoutError:
            return found, False
    return found, True


async def message(visit: Visit) -> Response:
    """Show one message by its id, with its body and its trace; ``raw=1`` returns the body alone."""
    found = await _message(visit)
    if visit.text("raw") == "1":
        return await download(visit, found)
    excerpt, view = await visit.site.workload.off_loop(partial(_read, found, visit.text("view")))
    recorded: list[Trace] = []
    trace_trouble = ""
    try:
        recorded = await _in_time(traces.of_message(visit.cluster, found.message_id))
    except (RemoteError, NetworkError) as error:  # of any broker: all have the topic of traces
        trace_trouble = str(error)
    return visit.page(
        "message.html",
        here="/messages",
        message=excerpt.message,
        excerpt=excerpt,
        view=view,
        views=VIEWS,
        body_bytes_max=visit.site.settings.body_bytes_max,
        keys_shown=KEYS_SHOWN,
        traces=recorded,
        trace_trouble=trace_trouble,
        is_send=lambda trace: isinstance(trace, PubTrace),
        is_begin=lambda trace: isinstance(trace, BeforeTrace),
        sent=visit.text("sent"),
    )


async def _message(visit: Visit) -> StoredMessage:
    """Return the message that the address names. Raises NotFound, and as ``messages.by_id``."""
    topic = visit.text("topic") or None
    return (await _in_time(messages.by_id(visit.cluster, visit.part("id"), topic, limit=1)))[0]


async def _in_time(search: Awaitable[FoundT]) -> FoundT:
    """Return what a search finds within its time. Raises RequestTimeout."""
    try:
        async with asyncio.timeout(SEARCH_S):
            return await search
    except TimeoutError:
        raise RequestTimeout(f"the brokers have answered for {SEARCH_S} s, and it was not found") from None


def _read(message: StoredMessage, view: str) -> tuple[Excerpt, BodyView]:
    excerpt = excerpt_of(message, SHOWN_MAX)
    return excerpt, view_of(excerpt, view)


async def send_again(visit: Visit) -> Response:
    """Send a message to a topic as a new one, and show that one."""
    found = await _message(visit)
    to = visit.form.get("to", "").strip()
    if not to:
        raise SettingsError("give the topic to which to send the message")
    sent = await messages.send_again(visit.cluster, found, to)
    return visit.go_to(f"/messages/{sent.offset_id}", topic=to, sent="1")


async def handle(visit: Visit) -> Response:
    """Ask a member of a group to handle a message now, and show the result."""
    found = await _message(visit)
    group = visit.form.get("group", "").strip()
    if not group:
        raise SettingsError("give the group of which a member is to handle the message")
    handled = await messages.consume_directly(visit.cluster, group, found)
    return visit.page("handled.html", here="/messages", message=found, group=group, handled=handled)
