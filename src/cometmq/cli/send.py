"""``cometmq send``: send a message, or one for each line of standard input."""

import asyncio
import os
import sys
from collections.abc import Iterator

import click

from cometmq.admin.cluster import ClusterAdmin, nearest
from cometmq.cli.access import access
from cometmq.cli.cluster_session import explain_no_route
from cometmq.cli.output import json_option, namesrv_option, print_json, print_line
from cometmq.client import Producer, SendResult
from cometmq.errors import NoRoute, SettingsError
from cometmq.message import Message


@click.command()
@click.argument("topic")
@click.argument("body", required=False)
@click.option("--tags", help="The message's tag.")
@click.option("--key", "keys", multiple=True, help="A key by which it can be found; repeatable.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="A property; repeatable.")
@namesrv_option
@json_option
def send(
    topic: str,
    body: str | None,
    tags: str | None,
    keys: tuple[str, ...],
    properties: tuple[str, ...],
    namesrv: str,
    as_json: bool,
) -> None:
    """Send BODY to TOPIC; without BODY, each line of standard input except empty ones, as it arrives.

    A missing topic is created, if the brokers allow that; a line on standard error says so.
    """
    for text in (tags or "", *keys, *properties):
        text.encode()  # raises UnicodeEncodeError for bytes of the shell that are not UTF-8
    by_name = dict(_property(text) for text in properties)
    bodies = _lines() if body is None else iter([os.fsencode(body)])
    producer = Producer(namesrv, **access())
    created = ""
    # Ctrl-C ends the wait for an input line at once, since the loop does not run meanwhile.
    with asyncio.Runner() as runner:
        runner.run(producer.__aenter__())
        try:
            for count, content in enumerate(bodies):
                if count == 0:
                    created = runner.run(_creates(namesrv, topic))
                _print(runner.run(producer.send(Message(topic, content, tags, keys, by_name))), as_json)
                if created:
                    print_line(created, err=True)
                    created = ""
        except NoRoute as error:
            raise runner.run(explain_no_route(namesrv, error)) from None
        finally:
            runner.run(producer.__aexit__())


async def _creates(namesrv: str, topic: str) -> str:
    """Return the line to print if the send creates its topic; empty if the topic exists."""
    async with ClusterAdmin(namesrv, **access()) as cluster:
        try:
            await cluster.route(topic)
        except NoRoute:
            return f"created topic {topic}{nearest(topic, await cluster.routes.topics())}"
    return ""


def _lines() -> Iterator[bytes]:
    return (content for line in sys.stdin.buffer if (content := line.rstrip(b"\r\n")))


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise SettingsError(f"--property {text!r}: write it as NAME=VALUE")
    return name, value


def _print(result: SendResult, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "status": result.status.name,
                "message_id": result.message_id,
                "offset_id": result.offset_id,
                "topic": result.queue.topic,
                "broker": result.queue.broker_name,
                "queue_id": result.queue.queue_id,
                "queue_offset": result.queue_offset,
            }
        )
    else:
        where = f"{result.queue.broker_name} queue {result.queue.queue_id} offset {result.queue_offset}"
        print_line(f"{result.status.name} {where} id {result.message_id}")
