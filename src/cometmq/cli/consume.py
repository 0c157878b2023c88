"""``cometmq consume``: print a topic's messages."""

import asyncio
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from typing import Any

import click

from cometmq.cli.output import (
    body_text,
    json_option,
    message_fields,
    namesrv_option,
    print_json,
    time_text,
)
from cometmq.client import PullConsumer
from cometmq.message import MessageQueue, StoredMessage

WAIT_MS = 15_000
GROUP = "cometmq-cli"


@click.command()
@click.argument("topic")
@click.option("--tags", default="*", show_default=True, help="Tags joined by ||.")
@click.option("--group", help="Begin where this group is, and commit for it.")
@click.option("--latest", is_flag=True, help="Begin with what comes now, not with the oldest message.")
@click.option("--follow", is_flag=True, help="Go on waiting for new messages.")
@click.option("--limit", type=click.IntRange(1), help="Stop after so many messages.")
@namesrv_option
@json_option
def consume(
    topic: str,
    tags: str,
    group: str | None,
    latest: bool,
    follow: bool,
    limit: int | None,
    namesrv: str,
    as_json: bool,
) -> None:
    """Print the messages of TOPIC, queue by queue; with --follow also those that come."""
    printer = _Printer(limit, as_json)

    async def run() -> None:
        async with AsyncExitStack() as stack:
            consumer = await stack.enter_async_context(PullConsumer(namesrv, group or GROUP))
            readers = [
                _read(consumer, queue, printer, tags=tags, commits=bool(group), latest=latest, follow=follow)
                for queue in await consumer.queues(topic)
            ]
            if follow:
                await _until_full(readers, printer)
            else:
                for reader in readers:
                    await reader

    asyncio.run(run())


class _Printer:
    """Prints messages up to a limit."""

    def __init__(self, limit: int | None, as_json: bool) -> None:
        self.full = asyncio.Event()
        self._left = limit
        self._as_json = as_json

    def show(self, message: StoredMessage) -> bool:
        """Print a message, unless the limit is reached."""
        if self.full.is_set():
            return False
        if self._as_json:
            print_json(message_fields(message))
        else:
            body = body_text(message.body)
            shown = body if body is not None else f"[{len(message.body)} bytes: {message.body[:32].hex()}…]"
            where = f"{message.queue_id}:{message.queue_offset}"
            click.echo(f"{time_text(message.store_time)} {where} {message.tags or '-'} {shown}")
        if self._left is not None:
            self._left -= 1
            if self._left == 0:
                self.full.set()
        return True


async def _read(
    consumer: PullConsumer,
    queue: MessageQueue,
    printer: _Printer,
    *,
    tags: str,
    commits: bool,
    latest: bool,
    follow: bool,
) -> None:
    """Print one queue's messages."""
    offset = await consumer.committed(queue) if commits else None
    if offset is None:
        offset = await (consumer.max_offset(queue) if latest else consumer.min_offset(queue))
    while not printer.full.is_set():
        pulled = await consumer.pull(queue, offset, tags=tags, wait_ms=WAIT_MS if follow else 0)
        following = pulled.next_offset
        for message in pulled.messages:
            if not printer.show(message):
                following = message.queue_offset
                break
        if commits and following > offset:
            await consumer.commit(queue, following)
        if following == offset and not follow:
            return
        offset = following


async def _until_full(readers: list[Coroutine[Any, Any, None]], printer: _Printer) -> None:
    """Run all readers until the limit is reached."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(reader) for reader in readers]
        await printer.full.wait()
        for task in tasks:
            task.cancel()
