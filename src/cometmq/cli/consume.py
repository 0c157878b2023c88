"""``cometmq consume``: print a topic's messages."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import click

from cometmq.cli.asking import taught
from cometmq.cli.output import json_option, namesrv_option, print_message, printable
from cometmq.client import PullConsumer
from cometmq.client.queue_requests import Pulled
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

WAIT_MS: Final = 15_000
RETRY_S: Final = 1.0
GROUP: Final = "TOOLS_CONSUMER"
"""The group that every broker has for tools (RocketMQ: MixAll.java); nothing is committed for it."""


@click.command()
@click.argument("topic")
@click.option("--tags", default="*", show_default=True, help="Tags joined by ||.")
@click.option("--sql", help="A condition over properties, instead of tags: \"size > 3 AND color = 'red'\".")
@click.option("--group", help="Begin where this group stands, and commit for it.")
@click.option("--latest", is_flag=True, help="With --follow: begin with what comes now.")
@click.option("--follow", is_flag=True, help="Go on waiting for new messages, until Ctrl-C.")
@click.option("--limit", type=click.IntRange(1), help="Stop after so many messages.")
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
    """Print the messages of TOPIC that are there, queue by queue, the oldest first."""
    if latest and not follow:
        raise SettingsError("--latest shows what comes from now on: give --follow too")
    if sql is not None and tags != tag.ALL:
        raise SettingsError("--sql and --tags: give one of them; TAGS is a property too")
    valid_topic(topic)
    try:
        tag.parse(tags)
    except FormatError as error:
        raise SettingsError(f"--tags: {error}") from None
    printer = Printer(limit, as_json)

    async def run() -> None:
        async with PullConsumer(namesrv, GROUP if group is None else group) as consumer:

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

            readers = await (begun_some_time(namesrv, begin) if follow else begin())
            if follow:
                await until_one_ends(readers)
            else:
                for reader in readers:
                    await reader.read_to_end()

    asyncio.run(taught_by(namesrv, run()))


class Printer:
    """Prints messages, up to a limit."""

    def __init__(self, limit: int | None, as_json: bool) -> None:
        self._left = limit
        self._as_json = as_json
        self._told = False

    @property
    def full(self) -> bool:
        """Whether the limit is reached."""
        return self._left == 0

    def show(self, pulled: Pulled) -> int:
        """Print what was pulled as far as the limit lets it; give the offset to go on from."""
        self._told = False
        for message in pulled.messages:
            if self.full:
                return message.queue_offset
            print_message(message, as_json=self._as_json)
            if self._left is not None:
                self._left -= 1
        return pulled.next_offset

    def pass_over(self, error: UndecodableBody) -> int:
        """Print that a message cannot be shown; return the queue offset that follows it."""
        click.echo(f"passed over: {printable(str(error))}", err=True)
        return error.message.queue_offset + 1

    def tell(self, error: CometMQError) -> None:
        """Say that something is away, once until it is back, however many queues wait for it."""
        if not self._told:
            click.echo(f"{printable(str(error))}; trying again", err=True)
        self._told = True


@dataclass
class Reader:
    """Reads one queue.

    Attributes:
        offset: what to pull next: all before it is printed, or not wanted.
        committed: what the group's offset is known to be.
        end: where the queue ended when reading began.
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
        """Find out where to begin, and where the queue ends now."""
        self.end = await self.consumer.max_offset(self.queue)
        if self.commits:
            self.committed = await self.consumer.committed(self.queue)
        if self.committed is not None:
            self.offset = self.committed
        else:
            self.offset = self.end if self.latest else await self.consumer.min_offset(self.queue)

    async def last(self, count: int) -> list[StoredMessage]:
        """Give those that are wanted of the last messages that were there at the beginning."""
        found: list[StoredMessage] = []
        offset = max(self.end - count, await self.consumer.min_offset(self.queue))
        while offset < self.end:
            try:
                pulled = await self.consumer.pull(self.queue, offset, tags=self.tags, sql=self.sql)
            except UndecodableBody as error:
                offset = self.printer.pass_over(error)
                continue
            found += [message for message in pulled.messages if message.queue_offset < self.end]
            if pulled.next_offset <= offset:
                break
            offset = pulled.next_offset
        return found

    async def read_to_end(self) -> None:
        """Read what was there at the beginning."""
        while self.offset < self.end and not self.printer.full:
            before = self.offset
            await self._step(0)
            if self.offset == before:
                return

    async def follow(self) -> None:
        """Read what is there and what comes, also after an outage, until the printer is full."""
        try:
            while not self.printer.full:
                try:
                    await self._step(WAIT_MS)
                except (NetworkError, NoRoute) as error:
                    self.printer.tell(error)
                    await asyncio.sleep(RETRY_S)
        finally:
            await self._commit()

    async def _step(self, wait_ms: int) -> None:
        try:
            pulled = await self.consumer.pull(
                self.queue, self.offset, tags=self.tags, sql=self.sql, wait_ms=wait_ms
            )
        except UndecodableBody as error:
            self.offset = self.printer.pass_over(error)
        else:
            self.offset = self.printer.show(pulled)
        await self._commit()

    async def _commit(self) -> None:
        """Commit what is printed, unless it already is."""
        if self.commits and self.offset != self.committed:
            await self.consumer.commit(self.queue, self.offset)
            self.committed = self.offset


async def readers_of(
    consumer: PullConsumer, topic: str, make: Callable[[PullConsumer, MessageQueue], Reader]
) -> list[Reader]:
    """Make a reader of each queue of a topic, and find out where each begins.

    Raises NoRoute, NetworkError, RemoteError.
    """
    readers = [make(consumer, queue) for queue in await consumer.queues(topic)]
    if not readers:
        raise NoRoute(f"no queue of topic {topic!r} can be read: its perm forbids it")
    await asyncio.gather(*(reader.begin() for reader in readers))
    return readers


async def begun_some_time(namesrv: str, begin: Callable[[], Awaitable[list[Reader]]]) -> list[Reader]:
    """Begin to follow, and wait for servers and a topic that are not there yet; print what is waited for.

    Raises what cannot change by waiting: an address of another kind of server, a topic that forbids reading.
    """
    printed = ""
    while True:
        try:
            return await begin()
        except NoRoute as error:
            if error.topic is None:
                raise
            text = str(await _taught_if_there(namesrv, error))
        except NetworkError as error:
            if not error.retriable:
                raise
            text = str(error)
        if text != printed:
            click.echo(f"{printable(text)}; trying again", err=True)
            printed = text
        await asyncio.sleep(RETRY_S)


async def _taught_if_there(namesrv: str, error: NoRoute) -> CometMQError:
    try:
        return await taught(namesrv, error)
    except NetworkError as lost:
        return lost


async def taught_by(namesrv: str, work: Coroutine[Any, Any, None]) -> None:
    """Do it; a topic that is not there is told with what there is instead."""
    try:
        await work
    except NoRoute as error:
        raise await taught(namesrv, error) from None


async def until_one_ends(readers: list[Reader]) -> None:
    """Follow all queues until the limit is reached, or one of them fails."""
    tasks = [asyncio.create_task(reader.follow()) for reader in readers]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result
