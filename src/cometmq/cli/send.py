"""``cometmq send``: send a message, or one for each line of standard input."""

import asyncio
import sys

import click

from cometmq.cli.output import json_option, namesrv_option, print_json
from cometmq.client import Producer, SendResult
from cometmq.errors import SettingsError
from cometmq.message import Message


@click.command()
@click.argument("topic")
@click.argument("body", required=False)
@click.option("--tags", help="The message's tag.")
@click.option("--key", "keys", multiple=True, help="A key to find it by; may be given again.")
@click.option("--property", "properties", multiple=True, metavar="NAME=VALUE", help="May be given again.")
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
    """Send BODY to TOPIC; without BODY, each line of standard input."""
    by_name = dict(_property(text) for text in properties)
    bodies = [body.encode()] if body is not None else [line.rstrip(b"\n") for line in sys.stdin.buffer]
    messages = [Message(topic, content, tags, keys, by_name) for content in bodies]

    async def run() -> None:
        async with Producer(namesrv) as producer:
            for message in messages:
                _print(await producer.send(message), as_json)

    asyncio.run(run())


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
                "offset_id": result.offset_ids[0],
                "topic": result.queue.topic,
                "broker": result.queue.broker_name,
                "queue_id": result.queue.queue_id,
                "queue_offset": result.queue_offset,
            }
        )
    else:
        where = f"{result.queue.broker_name} queue {result.queue.queue_id} offset {result.queue_offset}"
        click.echo(f"{result.status.name} {where} id {result.message_id}")
