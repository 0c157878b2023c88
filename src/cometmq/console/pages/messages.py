"""The message browser, and the page of one message."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final, NamedTuple

from starlette.responses import Response

from cometmq.admin import browsing, messages, traces
from cometmq.admin.times import TIME_MAX, TimeRange, parse_range
from cometmq.admin.tolerant import Trouble
from cometmq.console.bodies import csv_text, json_lines, short_text, view_of
from cometmq.console.filters import check_filter
from cometmq.console.visit import Visit, parse_number
from cometmq.errors import SettingsError
from cometmq.message import MessageQueue, StoredMessage
from cometmq.wire.bodies.trace import BeforeTrace, PubTrace

LIMIT: Final = 32
LIMIT_MAX: Final = 500
EXPORT_MAX: Final = 10_000
SEARCH_S: Final = 10
"""How long, in seconds, a search reads a topic; then it shows what it has found."""
EXPORTS: Final = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
VIEWS: Final = ("json", "text", "hex")
FIELDS: Final = ("topic", "id", "key", "time", "queue", "offset", "tags", "sql", "limit")


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
    """The result of a search; ``is_whole`` is false if there was no time to read all."""

    messages: list[StoredMessage]
    how: str
    is_whole: bool = True
    troubles: tuple[Trouble, ...] = ()


async def browse(visit: Visit) -> Response:
    """Show the messages that the form looks for, or export them."""
    export = visit.text("export")
    if export and export not in EXPORTS:
        raise SettingsError(f"export {export!r}: give one of {', '.join(EXPORTS)}")
    query = {name: visit.text(name) for name in FIELDS}
    found = SearchResult([], "")
    if query["topic"] or query["id"]:
        found = await find(visit, search_of(query, EXPORT_MAX if export else LIMIT_MAX))
    if export:
        return _export(found.messages, export, query["topic"] or "messages")
    rows = [(message, short_text(message.body)) for message in found.messages]
    return visit.page(
        "messages.html",
        here="/messages",
        query=query,
        rows=rows,
        found=found,
        limit=LIMIT,
        limit_max=LIMIT_MAX,
        search_s=SEARCH_S,
        asked=bool(query["topic"] or query["id"]),
        troubles=found.troubles,
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


async def find(visit: Visit, search: Search) -> SearchResult:
    """Find messages: by id, by key, by offset, by time, or else the newest ones."""
    cluster, (topic, limit) = visit.cluster, (search.topic, search.limit)
    if search.message_id:
        by_id = await messages.by_id(cluster, search.message_id, topic or None)
        return SearchResult(by_id[:limit], "found by id")
    if search.key:
        times = search.times or TimeRange(0, TIME_MAX)
        by_key = await messages.by_key(
            cluster, topic, search.key, begin=times.begin, end=times.end, limit=limit
        )
        return SearchResult(by_key, "found by key, the newest first")
    if search.queue is not None:
        of_queue = await browsing.from_offset(
            cluster, search.queue, search.offset, limit=limit, tags=search.tags, sql=search.sql
        )
        return SearchResult(of_queue, "of the queue, from the offset on")
    if search.times is not None:
        begin, end = search.times
        walk = messages.by_time(cluster, topic, begin=begin, end=end, tags=search.tags, sql=search.sql)
        first, is_whole = await first_of(walk, limit)
        return SearchResult(first, "from the time on, the oldest first", is_whole)
    newest = await browsing.newest(cluster, topic, limit=limit, tags=search.tags, sql=search.sql)
    return SearchResult(newest.messages, "the newest first", troubles=tuple(newest.troubles))


async def first_of(
    walk: AsyncGenerator[StoredMessage], limit: int, *, timeout_s: float = SEARCH_S
) -> tuple[list[StoredMessage], bool]:
    """Return the first messages of an iteration, and whether there was time to read them all."""
    found: list[StoredMessage] = []
    async with aclosing(walk):
        try:
            async with asyncio.timeout(timeout_s):
                async for message in walk:
                    found.append(message)
                    if len(found) == limit:
                        break
        except TimeoutError:
            return found, False
    return found, True


async def message(visit: Visit) -> Response:
    """Show one message by its id, with its body and its trace; ``raw=1`` returns the body alone."""
    found = (await messages.by_id(visit.cluster, visit.part("id"), visit.text("topic") or None))[0]
    if visit.text("raw") == "1":
        headers = {"content-disposition": f'attachment; filename="{found.offset_id}.bin"'}
        return Response(found.body, headers=headers, media_type="application/octet-stream")
    return visit.page(
        "message.html",
        here="/messages",
        message=found,
        view=view_of(found.body, visit.text("view")),
        views=VIEWS,
        traces=await traces.of_message(visit.cluster, found.message_id),
        is_send=lambda trace: isinstance(trace, PubTrace),
        is_begin=lambda trace: isinstance(trace, BeforeTrace),
        sent=visit.text("sent"),
    )


async def send_again(visit: Visit) -> Response:
    """Send a message to a topic as a new one, and show that one."""
    found = (await messages.by_id(visit.cluster, visit.part("id"), visit.text("topic") or None))[0]
    to = visit.form.get("to", "").strip()
    if not to:
        raise SettingsError("give the topic to which to send the message")
    sent = await messages.send_again(visit.cluster, found, to)
    return visit.go_to(f"/messages/{sent.offset_id}", topic=to, sent="1")


async def handle(visit: Visit) -> Response:
    """Ask a member of a group to handle a message now, and show the result."""
    found = (await messages.by_id(visit.cluster, visit.part("id"), visit.text("topic") or None))[0]
    group = visit.form.get("group", "").strip()
    if not group:
        raise SettingsError("give the group of which a member is to handle the message")
    handled = await messages.consume_directly(visit.cluster, group, found)
    return visit.page("handled.html", here="/messages", message=found, group=group, handled=handled)


def _export(found: list[StoredMessage], kind: str, name: str) -> Response:
    content = csv_text(found).encode() if kind == "csv" else json_lines(found)
    safe = "".join(char if char.isalnum() or char in "-_" else "_" for char in name if char.isascii())
    headers = {"content-disposition": f'attachment; filename="{safe}.{kind}"'}
    return Response(content, headers=headers, media_type=EXPORTS[kind])
