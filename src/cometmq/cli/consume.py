"""``cometmq consume``: print a topic's messages."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import click

from cometmq.cli.access import access
from cometmq.cli.cluster_session import explain_no_route
from cometmq.cli.output import json_option, namesrv_option, print_line, print_message
from cometmq.client import PullConsumer
from cometmq.client.requests.queue_requests import Pulled
from cometmq.errors import (
    CometMQError,
    FormatError,
    NetworkError,
    NoRoute,
    SettingsError,
    UndecodableBody,
)
from cometmq.filter import tag
from cometmq.format.layout import valid_topic
from cometmq.message import MessageQueue, StoredMessage
from cometmq.net.tasks import until_one_ends

WAIT_MS: Final = 15_000
RETRY_S: Final = 1.0
GROUP: Final = "TOOLS_CONSUMER"
"""The group that every broker has for tools (RocketMQ: MixAll.java); no offset is committed for it."""


@click.command()
@click.argument("topic")
@click.option("--tags", default="*", show_default=True, help="Tags joined by ||.")
@click.option("--sql", help="A condition over properties, instead of tags: \"size > 3 AND color = 'red'\".")
@click.option("--group", help="Begin at the offsets of this group, and commit for it.")
@click.option("--latest", is_flag=True, help="With --follow: begin with new messages.")
@click.option("--follow", is_flag=True, help="Wait for new messages, until Ctrl-C.")
@click.option("--limit", type=click.IntRange(1), help="Stop after this many messages.")
@namesrv_option
@json_option
def consume(
    topic: str,
    tags: str,
    sql: str | None,
    group: str | None,
    latest: bool,
    follow: bool,
    limit: int | None,
    namesrv: str,
    as_json: bool,
) -> None:
    """Print the present messages of TOPIC, queue by queue, the oldest first."""
    if latest and not follow:
        raise SettingsError("--latest begins with new messages: give --follow too")
    if sql is not None and tags != tag.ALL:
        raise SettingsError("--sql and --tags: give only one of them; SQL can compare the property TAGS")
    valid_topic(topic)
    check_tags(tags)
    printer = Printer(limit, as_json)

    async def run() -> None:
        async with PullConsumer(namesrv, GROUP if group is None else group, **access()) as consumer:

            async def begin() -> list[Reader]:
                return await readers_of(
                    consumer,
                    topic,
                    partial(
                        Reader,
                        printer=printer,
                        tags=tags,
                        sql=sql,
                        latest=latest,
                        commits=group is not None,
                    ),
                )

            readers = await (begin_when_available(namesrv, begin) if follow else begin())
            if follow:
                await until_one_ends(*(reader.follow() for reader in readers))
            else:
                for reader in readers:
                    await reader.read_to_end()

    asyncio.run(explaining_no_route(namesrv, run()))


def check_tags(text: str) -> None:
    """Check the option ``--tags``. Raises SettingsError."""
    try:
        tag.parse(text)
    except FormatError as error:
        raise SettingsError(f"--tags: {error}") from None


class Printer:
    """A printer of messages, up to a limit."""

    def __init__(self, limit: int | None, as_json: bool) -> None:
        self._left = limit
        self._as_json = as_json
        self._is_reported = False

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self._left == 0

    def show(self, pulled: Pulled) -> int:
        """Print pulled messages up to the limit; return the queue offset to continue at."""
        self._is_reported = False
        for message in pulled.messages:
            if self.full:
                return message.queue_offset
            print_message(message, as_json=self._as_json)
            if self._left is not None:
                self._left -= 1
        return pulled.next_offset

    def skip(self, error: UndecodableBody) -> int:
        """Report a message that cannot be shown; return the queue offset behind it."""
        print_line(f"skipped: {error}", err=True)
        return error.message.queue_offset + 1

    def report_outage(self, error: CometMQError) -> None:
        """Report an outage once until messages come again, however many queues wait."""
        if not self._is_reported:
            print_line(f"{error}; trying again", err=True)
        self._is_reported = True


@dataclass
class Reader:
    """A reader of one queue.

    Attributes:
        offset: the queue offset to pull next: all messages before it are printed, or rejected by the filter.
        committed: the group's committed offset, as far as known.
        end: the queue's end when reading began.
    """

    consumer: PullConsumer
    queue: MessageQueue
    printer: Printer
    tags: str
    sql: str | None
    latest: bool
    commits: bool
    offset: int = 0
    committed: int | None = None
    end: int = field(default=0, init=False)

    async def begin(self) -> None:
        """Determine the first offset to read, and the queue's present end."""
        self.end = await self.consumer.max_offset(self.queue)
        if self.commits:
            self.committed = await self.consumer.committed(self.queue)
        if self.committed is not None:
            self.offset = self.committed
        else:
            self.offset = self.end if self.latest else await self.consumer.min_offset(self.queue)

    async def last(self, count: int) -> list[StoredMessage]:
        """Return the matching messages among the last ``count`` ones before the end at the beginning."""
        found: list[StoredMessage] = []
        offset = max(self.end - count, await self.consumer.min_offset(self.queue))
        while offset < self.end:
            try:
                pulled = await self.consumer.pull(self.queue, offset, tags=self.tags, sql=self.sql)
            except UndecodableBody as error:
                offset = self.printer.skip(error)
                continue
            found += [message for message in pulled.messages if message.queue_offset < self.end]
            if pulled.next_offset <= offset:
                break
            offset = pulled.next_offset
        return found

    async def read_to_end(self) -> None:
        """Read up to the end that the queue had at the beginning."""
        while self.offset < self.end and not self.printer.full:
            before = self.offset
            await self._step(0)
            if self.offset == before:
                return

    async def follow(self) -> None:
        """Read present and new messages, also after an outage, until the limit is reached."""
        try:
            while not self.printer.full:
                try:
                    await self._step(WAIT_MS)
                except (NetworkError, NoRoute) as error:
                    self.printer.report_outage(error)
                    await asyncio.sleep(RETRY_S)
        finally:
            await self._commit()

    async def _step(self, wait_ms: int) -> None:
        try:
            pulled = await self.consumer.pull(
                self.queue, self.offset, tags=self.tags, sql=self.sql, wait_ms=wait_ms
            )
        except UndecodableBody as error:
            self.offset = self.printer.skip(error)
        else:
            self.offset = self.printer.show(pulled)
        await self._commit()

    async def _commit(self) -> None:
        """Commit the offset of the printed messages, if it has changed."""
        if self.commits and self.offset != self.committed:
            await self.consumer.commit(self.queue, self.offset)
            self.committed = self.offset


async def readers_of(
    consumer: PullConsumer, topic: str, make: Callable[[PullConsumer, MessageQueue], Reader]
) -> list[Reader]:
    """Create a reader for each queue of a topic, and determine where each begins.

    Raises NoRoute, NetworkError, RemoteError.
    """
    readers = [make(consumer, queue) for queue in await consumer.queues(topic)]
    if not readers:
        raise NoRoute(f"no queue of topic {topic!r} can be read: its perm forbids it")
    await asyncio.gather(*(reader.begin() for reader in readers))
    return readers


async def begin_when_available(namesrv: str, begin: Callable[[], Awaitable[list[Reader]]]) -> list[Reader]:
    """Create the readers; wait for servers and a topic that do not exist yet, printing what it waits for.

    Raises errors that waiting cannot change: another kind of server, a topic that forbids reading.
    """
    printed = ""
    while True:
        try:
            return await begin()
        except NoRoute as error:
            if error.topic is None:
                raise
            text = str(await _explained_if_reachable(namesrv, error))
        except NetworkError as error:
            if not error.retriable:
                raise
            text = str(error)
        if text != printed:
            print_line(f"{text}; trying again", err=True)
            printed = text
        await asyncio.sleep(RETRY_S)


async def _explained_if_reachable(namesrv: str, error: NoRoute) -> CometMQError:
    try:
        return await explain_no_route(namesrv, error)
    except NetworkError as lost:
        return lost


async def explaining_no_route(namesrv: str, work: Coroutine[Any, Any, None]) -> None:
    """Await ``work``; a NoRoute is replaced by one that names the nearest topic and the remedy."""
    try:
        await work
    except NoRoute as error:
        raise await explain_no_route(namesrv, error) from None
