"""``cometmq tail``: a topic's last messages, and new ones."""

import asyncio
from functools import partial
from operator import attrgetter

import click

from cometmq.cli.access import access
from cometmq.cli.consume import (
    GROUP,
    Printer,
    Reader,
    begin_when_available,
    check_tags,
    explaining_no_route,
    readers_of,
)
from cometmq.cli.output import json_option, namesrv_option
from cometmq.client import PullConsumer
from cometmq.client.requests.queue_requests import Pulled, PullStatus
from cometmq.format.layout import valid_topic
from cometmq.net.tasks import until_one_ends


@click.command()
@click.argument("topic")
@click.option("--tags", default="*", show_default=True, help="Tags joined by ||.")
@click.option(
    "--last", "count", type=click.IntRange(0), default=10, show_default=True,
    help="Begin with this many of the last messages; with tags, those among the last ones of each queue.",
)  # fmt: skip
@click.option("--no-follow", is_flag=True, help="Do not wait for new messages.")
@click.option("--limit", type=click.IntRange(1), help="Stop after this many messages in all.")
@namesrv_option
@json_option
def tail(
    topic: str, tags: str, count: int, no_follow: bool, limit: int | None, namesrv: str, as_json: bool
) -> None:
    """Print the last messages of TOPIC in the order of their store times, then new ones until Ctrl-C.

    No offsets are committed. While the name server, a broker or the topic is missing, it waits for
    them, unless --no-follow is given.
    """
    valid_topic(topic)
    check_tags(tags)
    printer = Printer(limit, as_json)

    async def run() -> None:
        async with PullConsumer(namesrv, GROUP, **access()) as consumer:

            async def begin() -> list[Reader]:
                make = partial(Reader, printer=printer, tags=tags, sql=None, latest=True, commits=False)
                return await readers_of(consumer, topic, make)

            readers = await (begin() if no_follow else begin_when_available(namesrv, begin))
            found = await asyncio.gather(*(reader.last(count) for reader in readers))
            messages = sorted(
                (one for some in found for one in some), key=attrgetter("store_time", "physical_offset")
            )
            printer.show(
                Pulled(PullStatus.FOUND, messages[len(messages) - min(count, len(messages)) :], 0, 0, 0)
            )
            if not no_follow and not printer.full:
                await until_one_ends(*(reader.follow() for reader in readers))

    asyncio.run(explaining_no_route(namesrv, run()))
